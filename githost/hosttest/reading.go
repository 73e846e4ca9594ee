package hosttest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

func change(author, branch, file string) NewMR {
	return NewMR{Author: author, Branch: branch, Title: "Add " + file, Files: map[string]string{file: "by " + author + "\n"}}
}

func read(t *testing.T, w World, number int) bot.MRSnapshot {
	t.Helper()
	return ok[bot.MRSnapshot](t)(w.Host().ReadMR(t.Context(), w.Repository(), number))
}

func tip(t *testing.T, w World, branch string) string {
	t.Helper()
	return ok[string](t)(w.Host().ReadBranch(t.Context(), w.Repository(), branch))
}

func readsMR(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "feature/größe", "a.txt"))
	mr := read(t, w, number)
	head := tip(t, w, "feature/größe")
	if mr.Number != number || mr.State != bot.MROpen || mr.Draft || mr.FromFork || mr.Title != "Add a.txt" ||
		mr.Author.Login != "bob" || mr.Author.ID == 0 || mr.Author.Bot ||
		mr.SourceBranch != "feature/größe" || mr.Target != "main" || mr.HeadSHA != head || mr.MergeSHA != "" {
		t.Errorf("read %+v, head %s", mr, head)
	}
	if mr.URL != w.Host().MRURL(w.Repository(), number) {
		t.Errorf("the address is %s, but MRURL says %s", mr.URL, w.Host().MRURL(w.Repository(), number))
	}
	pushed := w.Push(number, map[string]string{"b.txt": "more\n"})
	w.SetDraft(number, "bob", true)
	if mr = read(t, w, number); mr.HeadSHA != pushed || !mr.Draft {
		t.Errorf("after a push and a draft toggle read head %s draft %v, want %s true", mr.HeadSHA, mr.Draft, pushed)
	}
}

func readsFork(t *testing.T, w World) {
	mr := change("dan", "patch-1", "a.txt")
	mr.Fork = true
	number := w.OpenMR(mr)
	got := read(t, w, number)
	if !got.FromFork || got.HeadSHA == "" {
		t.Errorf("read %+v", got)
	}
	if ref := w.Host().HeadRef(number); ref == "" || ref[:5] != "refs/" {
		t.Errorf("HeadRef is %q, want a full ref", ref)
	}
}

func readsClosed(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	w.Close(number, "bob")
	if mr := read(t, w, number); mr.State != bot.MRClosed || mr.MergeSHA != "" {
		t.Errorf("read state %v, merge commit %q", mr.State, mr.MergeSHA)
	}
	batch := openBatch(t, w, map[string]string{"b.txt": "b\n"})
	w.Close(batch.Number, "bob")
	if mr := read(t, w, batch.Number); mr.State != bot.MRClosed || mr.ClosedBy != "bob" {
		t.Errorf("a batch MR that bob closed: state %v, closed by %q", mr.State, mr.ClosedBy)
	}
}

func readsMerged(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	sha := w.Merge(number, "ada")
	if mr := read(t, w, number); mr.State != bot.MRMerged || mr.MergeSHA != sha {
		t.Errorf("read state %v, merge commit %s, want %s", mr.State, mr.MergeSHA, sha)
	}
}

func readsIssue(t *testing.T, w World) {
	number := w.OpenIssue("dan", "A question")
	for _, n := range []int{number, number + 1000} {
		if _, err := w.Host().ReadMR(t.Context(), w.Repository(), n); !errors.Is(err, bot.ErrNotFound) {
			t.Errorf("reading %d: %v, want ErrNotFound", n, err)
		}
	}
}

func listsUpdated(t *testing.T, w World) {
	first := w.OpenMR(change("bob", "b1", "a.txt"))
	second := w.OpenMR(change("cleo", "b2", "b.txt"))
	closed := w.OpenMR(change("cleo", "b3", "c.txt"))
	w.Close(closed, "cleo")
	list := ok[[]bot.MRSnapshot](t)(w.Host().ListUpdatedMRs(t.Context(), w.Repository(), time.Time{}))
	var numbers []int
	for _, mr := range list {
		numbers = append(numbers, mr.Number)
		if mr.State != bot.MROpen || mr.HeadSHA == "" {
			t.Errorf("listed %+v", mr)
		}
	}
	slices.Sort(numbers)
	if !slices.Equal(numbers, []int{first, second}) {
		t.Errorf("listed %v, want the open ones %d and %d", numbers, first, second)
	}
	later := read(t, w, second).UpdatedAt.Add(time.Hour)
	if list := ok[[]bot.MRSnapshot](t)(w.Host().ListUpdatedMRs(t.Context(), w.Repository(), later)); len(list) != 0 {
		t.Errorf("listed %v from a later moment on", list)
	}
}

func readsPermissions(t *testing.T, w World) {
	for login, want := range map[string]bot.Permission{
		"ada": bot.PermissionAdmin, "max": bot.PermissionMaintain, "bob": bot.PermissionWrite, "tess": bot.PermissionTriage,
	} {
		if got := ok[bot.Permission](t)(w.Host().Permission(t.Context(), w.Repository(), bot.Actor{Login: login})); got != want {
			t.Errorf("%s has %s, want %s", login, got, want)
		}
	}
	for _, who := range []bot.Actor{{Login: "dan"}, {Login: "nobody-by-that-name"}, {Login: "other[bot]", Bot: true}} {
		if got := ok[bot.Permission](t)(w.Host().Permission(t.Context(), w.Repository(), who)); got.AtLeast(bot.PermissionTriage) {
			t.Errorf("the stranger %s has %s", who.Login, got)
		}
	}
}

var oneApproval = bot.ApprovalPolicy{Count: 1, Minimum: bot.PermissionWrite}

func judge(t *testing.T, w World, number int) bot.ApprovalVerdict {
	t.Helper()
	mr := read(t, w, number)
	approvals := ok[bot.Approvals](t)(w.Host().ReadApprovals(t.Context(), w.Repository(), number))
	return bot.JudgeApproval(oneApproval, mr.Author, mr.HeadSHA, approvals)
}

func readsApprovals(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	if v := judge(t, w, number); v.Sufficient {
		t.Errorf("approved by nobody, yet %+v", v)
	}
	w.Approve(number, "tess", "")
	if v := judge(t, w, number); v.Sufficient {
		t.Errorf("approved by somebody who may not write, yet %+v", v)
	}
	w.Approve(number, "cleo", "")
	if v := judge(t, w, number); !v.Sufficient || !slices.Equal(v.Approvers, []string{"cleo"}) {
		t.Errorf("approved by cleo: %+v", v)
	}
	w.Push(number, map[string]string{"b.txt": "unseen\n"})
	if v := judge(t, w, number); v.Sufficient {
		t.Errorf("the approval was for the commit before, yet %+v", v)
	}
}

func readsWithdrawal(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	w.Approve(number, "cleo", "")
	w.Unapprove(number, "cleo")
	if v := judge(t, w, number); v.Sufficient {
		t.Errorf("the approval was withdrawn, yet %+v", v)
	}
}

func readsDecision(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	w.RequireApprovals("main", 2)
	w.Approve(number, "cleo", "")
	if v := judge(t, w, number); v.Sufficient {
		t.Errorf("the host wants two approvals, yet %+v", v)
	}
	w.Approve(number, "ada", "")
	if v := judge(t, w, number); !v.Sufficient {
		t.Errorf("with two approvals: %+v", v)
	}
}

var asSeen = bot.CheckPolicy{None: bot.WithoutChecksWait, NoneAfter: time.Hour}

func judgeCI(t *testing.T, w World, sha string) bot.CIJudgement {
	t.Helper()
	report := ok[bot.ChecksReport](t)(w.Host().ReadChecks(t.Context(), w.Repository(), sha, "main"))
	return bot.JudgeChecks(asSeen, report, time.Minute, time.Hour)
}

func readsChecks(t *testing.T, w World) {
	sha := w.Commit("b1", map[string]string{"a.txt": "a\n"})
	for _, step := range []struct {
		name  string
		state bot.CheckState
		want  bot.CIVerdict
	}{
		{"build", bot.CheckPending, bot.CIPending},
		{"build", bot.CheckFailure, bot.CIRed},
		{"build", bot.CheckSuccess, bot.CIGreen},
		{"lint", bot.CheckPending, bot.CIPending},
		{"lint", bot.CheckSuccess, bot.CIGreen},
	} {
		w.Report(sha, step.name, step.state)
		if got := judgeCI(t, w, sha); got.Verdict != step.want {
			t.Errorf("after %s reported %d CI is %v, want %v", step.name, step.state, got.Verdict, step.want)
		}
	}
}

func readsNoChecks(t *testing.T, w World) {
	sha := w.Commit("b1", map[string]string{"a.txt": "a\n"})
	report := ok[bot.ChecksReport](t)(w.Host().ReadChecks(t.Context(), w.Repository(), sha, "main"))
	if len(report.Checks) != 0 || len(report.Required) != 0 {
		t.Errorf("nothing was reported or required, yet %+v", report)
	}
}

func readsRequired(t *testing.T, w World) {
	// Some hosts report what they demand only of a merge request.
	sha := read(t, w, w.OpenMR(change("bob", "b1", "a.txt"))).HeadSHA
	w.RequireChecks("main", "build", "lint")
	w.Report(sha, "other", bot.CheckFailure)
	w.Report(sha, "build", bot.CheckSuccess)
	if got := judgeCI(t, w, sha); got.Verdict != bot.CIPending {
		t.Errorf("lint is missing, yet CI is %v", got.Verdict)
	}
	w.Report(sha, "lint", bot.CheckSuccess)
	if got := judgeCI(t, w, sha); got.Verdict != bot.CIGreen {
		t.Errorf("all that is required is green, yet CI is %v", got.Verdict)
	}
}

func readsRules(t *testing.T, w World) {
	rules := func(branch string) bot.TargetRules {
		return ok[bot.TargetRules](t)(w.Host().ReadTargetRules(t.Context(), w.Repository(), branch))
	}
	for _, branch := range []string{"main", "nothing"} {
		if got := rules(branch); got.LinearHistory || got.MergeQueue || got.SquashOnly || got.RequiredReviews != 0 || len(got.RequiredChecks) != 0 {
			t.Errorf("nothing is demanded on %s, yet %+v", branch, got)
		}
	}
	w.Commit("dev", map[string]string{"d.txt": "d\n"})
	w.RequireApprovals("main", 2)
	w.RequireChecks("dev", "build", "lint")
	if got := rules("main"); got.RequiredReviews != 2 || len(got.RequiredChecks) != 0 {
		t.Errorf("two reviews are demanded on main, yet %+v", got)
	}
	var names []string
	got := rules("dev")
	for _, c := range got.RequiredChecks {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if got.RequiredReviews != 0 || !slices.Equal(names, []string{"build", "lint"}) {
		t.Errorf("two checks are demanded on dev, yet %+v", got)
	}
}

func listsRepositories(t *testing.T, w World) {
	list := ok[[]bot.RepositoryRef](t)(w.Host().ListRepositories(t.Context()))
	want := w.Repository().RepositoryRef
	for _, r := range list {
		if r.ExternalID == want.ExternalID {
			if r.Path != want.Path || r.Host != want.Host || r.Installation != want.Installation || r.DefaultBranch != "main" {
				t.Errorf("listed %+v, want %+v", r, want)
			}
			return
		}
	}
	t.Errorf("%s is not among %v", want.Path, list)
}

func readsRepository(t *testing.T, w World) {
	got := ok[bot.HostRepository](t)(w.Host().ReadRepository(t.Context(), w.Repository()))
	if got.Path != w.Repository().Path || got.ExternalID != w.Repository().ExternalID || got.DefaultBranch != "main" || got.Archived || !got.MergeCommits {
		t.Errorf("read %+v", got)
	}
	w.Archive()
	if got := ok[bot.HostRepository](t)(w.Host().ReadRepository(t.Context(), w.Repository())); !got.Archived {
		t.Errorf("archived, yet read %+v", got)
	}
	gone := w.Repository()
	gone.ExternalID += 1_000_000
	if _, err := w.Host().ReadRepository(t.Context(), gone); !errors.Is(err, bot.ErrGone) {
		t.Errorf("reading a repository that does not exist: %v, want ErrGone", err)
	}
}

func readsBranches(t *testing.T, w World) {
	sha := w.Commit("release/1%+é", map[string]string{"a.txt": "a\n"})
	if got := tip(t, w, "release/1%+é"); got != sha {
		t.Errorf("read %s, want %s", got, sha)
	}
	for _, name := range []string{"release", "release/1", "nothing"} {
		if _, err := w.Host().ReadBranch(t.Context(), w.Repository(), name); !errors.Is(err, bot.ErrNotFound) {
			t.Errorf("reading %s: %v, want ErrNotFound", name, err)
		}
	}
	w.DeleteBranch("release/1%+é")
	if _, err := w.Host().ReadBranch(t.Context(), w.Repository(), "release/1%+é"); !errors.Is(err, bot.ErrNotFound) {
		t.Errorf("reading a deleted branch: %v, want ErrNotFound", err)
	}
}

func readsFiles(t *testing.T, w World) {
	w.Commit("dev", map[string]string{"dir/settings.yml": "a: 1\n# größer\n"})
	content, blob, err := w.Host().ReadFile(t.Context(), w.Repository(), "dev", "dir/settings.yml")
	must(t, err)
	if string(content) != "a: 1\n# größer\n" || len(blob) < 40 {
		t.Errorf("read %q, blob %q", content, blob)
	}
	w.Commit("dev", map[string]string{"dir/settings.yml": "a: 2\n"})
	content, changed, err := w.Host().ReadFile(t.Context(), w.Repository(), "dev", "dir/settings.yml")
	must(t, err)
	if string(content) != "a: 2\n" || changed == blob {
		t.Errorf("after a change read %q, blob %s as before", content, changed)
	}
	for _, at := range [][2]string{{"main", "dir/settings.yml"}, {"nothing", "dir/settings.yml"}, {"dev", "dir"}} {
		if _, _, err := w.Host().ReadFile(t.Context(), w.Repository(), at[0], at[1]); !errors.Is(err, bot.ErrNotFound) {
			t.Errorf("reading %s at %s: %v, want ErrNotFound", at[1], at[0], err)
		}
	}
}

func givesGit(t *testing.T, w World) {
	remote := ok[bot.GitRemote](t)(w.Host().GitRemote(t.Context(), w.Repository()))
	other := w.Repository()
	other.ExternalID++
	another := ok[bot.GitRemote](t)(w.Host().GitRemote(t.Context(), other))
	if remote.URL == "" || remote.Key == "" || remote.Key == another.Key {
		t.Errorf("remote %+v, of another repository %+v", remote, another)
	}
}
