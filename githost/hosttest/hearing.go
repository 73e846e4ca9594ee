package hosttest

import (
	"slices"
	"testing"

	"github.com/batchbot/batchbot/bot"
)

// hear has the adapter read every webhook that act brings about.
func hear(t *testing.T, w World, act func()) []bot.Event {
	t.Helper()
	before := len(w.Deliveries())
	act()
	var heard []bot.Event
	keys := map[string]bool{}
	for _, d := range w.Deliveries()[before:] {
		head := ok[bot.WebhookHead](t)(w.Webhooks().Authenticate(d.Header, d.Body))
		if head.Key == "" || keys[head.Key] {
			t.Errorf("delivery key %q is empty or was seen before", head.Key)
		}
		keys[head.Key] = true
		if !head.Wanted {
			continue
		}
		events, why, err := w.Webhooks().Parse(head.Event, d.Body)
		must(t, err)
		if len(events) == 0 && why == "" {
			t.Errorf("%s came to nothing, and nobody knows why", head.Event)
		}
		for _, e := range events {
			if e.Kind != bot.EventInstallation && (e.Repository.ExternalID != w.Repository().ExternalID || e.Repository.Path != w.Repository().Path || e.Repository.Host != w.Repository().Host) {
				t.Errorf("%s is about %+v", head.Event, e.Repository)
			}
		}
		heard = append(heard, events...)
	}
	return heard
}

func ofKind(events []bot.Event, kind bot.EventKind) []bot.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e bot.Event) bool { return e.Kind != kind })
}

func hearsComments(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	issue := w.OpenIssue("dan", "A question")
	for _, on := range []int{number, issue} {
		var id int64
		heard := ofKind(hear(t, w, func() { id = w.Comment(on, "cleo", "/batch\r\nplease 🚀") }), bot.EventComment)
		if on == issue && peculiarities(w).IssuesApart {
			if len(heard) != 0 {
				t.Errorf("took what was said on issue %d for a word on a merge request: %+v", on, heard)
			}
			continue
		}
		if len(heard) != 1 || heard[0].Number != on {
			t.Fatalf("on %d heard %+v", on, heard)
		}
		c := heard[0].Comment
		if c.ID != id || c.Kind != bot.CommentIssue || c.Body != "/batch\r\nplease 🚀" || c.Author.Login != "cleo" || c.Author.ID == 0 || c.CreatedAt.IsZero() {
			t.Errorf("on %d heard %+v", on, c)
		}
	}
}

func hearsNoEdits(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	id := w.Comment(number, "bob", "looks good")
	if heard := ofKind(hear(t, w, func() { w.EditComment(id, "/batch") }), bot.EventComment); len(heard) != 0 {
		t.Errorf("heard an edit: %+v", heard)
	}
	if heard := ofKind(hear(t, w, func() { upsert(t, w, number, "waiting", 0) }), bot.EventComment); len(heard) != 0 {
		t.Errorf("heard ourselves: %+v", heard)
	}
}

func hearsMRs(t *testing.T, w World) {
	w.Commit("dev", map[string]string{"d.txt": "d\n"})
	var number int
	for _, step := range []struct {
		what string
		act  func()
	}{
		{"opening", func() { number = w.OpenMR(change("bob", "b1", "a.txt")) }},
		{"pushing", func() { w.Push(number, map[string]string{"b.txt": "b\n"}) }},
		{"making it a draft", func() { w.SetDraft(number, "bob", true) }},
		{"making it ready", func() { w.SetDraft(number, "bob", false) }},
		{"retargeting", func() { w.Retarget(number, "bob", "dev") }},
		{"closing", func() { w.Close(number, "bob") }},
	} {
		heard := ofKind(hear(t, w, step.act), bot.EventMergeRequest)
		if len(heard) == 0 || heard[0].Number != number {
			t.Errorf("after %s heard %+v", step.what, heard)
		}
	}
}

func hearsReviews(t *testing.T, w World) {
	number := w.OpenMR(change("bob", "b1", "a.txt"))
	heard := hear(t, w, func() { w.Approve(number, "cleo", "") })
	if len(ofKind(heard, bot.EventComment)) != 0 || len(ofKind(heard, bot.EventMergeRequest)) == 0 {
		t.Errorf("a silent approval: heard %+v", heard)
	}
	heard = hear(t, w, func() { w.Approve(number, "ada", "/batch") })
	said, kind := ofKind(heard, bot.EventComment), bot.CommentReview
	if peculiarities(w).SilentApprovals {
		kind = bot.CommentIssue
	}
	if len(said) != 1 || said[0].Comment.Kind != kind || said[0].Comment.Body != "/batch" || said[0].Number != number || said[0].Comment.Author.Login != "ada" {
		t.Errorf("an approval with words: heard %+v", heard)
	}
	if heard := ofKind(hear(t, w, func() { w.Unapprove(number, "ada") }), bot.EventMergeRequest); len(heard) == 0 {
		t.Error("a withdrawn approval was not heard")
	}
}

func hearsChecksAndBranches(t *testing.T, w World) {
	var sha string
	heard := ofKind(hear(t, w, func() { sha = w.Commit("release/1", map[string]string{"a.txt": "a\n"}) }), bot.EventBranch)
	if len(heard) != 1 || heard[0].Branch != "release/1" {
		t.Errorf("a new branch: heard %+v", heard)
	}
	heard = ofKind(hear(t, w, func() { w.Report(sha, "build", bot.CheckSuccess) }), bot.EventChecks)
	if len(heard) == 0 || heard[0].SHA != sha {
		t.Errorf("a check on %s: heard %+v", sha, heard)
	}
	if heard := ofKind(hear(t, w, func() { w.DeleteBranch("release/1") }), bot.EventBranch); len(heard) != 1 || heard[0].Branch != "release/1" {
		t.Errorf("a deleted branch: heard %+v", heard)
	}
	own := hear(t, w, func() {
		must(t, w.Host().SetCommitStatus(t.Context(), w.Repository(), sha, bot.CommitStatus{State: bot.CheckPending}))
	})
	if heard := ofKind(own, bot.EventChecks); len(heard) != 0 {
		t.Errorf("heard our own status: %+v", heard)
	}
}

func refusesForgery(t *testing.T, w World) {
	w.Comment(w.OpenIssue("dan", "A question"), "dan", "/batch")
	deliveries := w.Deliveries()
	d := deliveries[len(deliveries)-1]
	if _, err := w.Webhooks().Authenticate(d.Header, append(slices.Clone(d.Body), ' ')); err == nil && !peculiarities(w).UnsignedBodies {
		t.Error("a changed body was accepted")
	}
	if _, err := w.Webhooks().Authenticate(map[string][]string{}, d.Body); err == nil {
		t.Error("a body without a signature was accepted")
	}
}
