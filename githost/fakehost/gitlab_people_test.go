package fakehost_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/githost/fakehost"
)

func TestApprovalsHaveTwoShapesAndAreResetLater(t *testing.T) {
	t.Parallel()
	h := newGitLab(t, func(o *fakehost.Options) { o.GitLab.ResetAfter = -1 })
	must(t, h.SetRules(project, "main", fakehost.Rules{RequiredApprovals: 2, DismissStale: true}))
	number := labMR(t, h, "bob", "one", "one.txt")
	c := labBot(t, h)
	status := func() string {
		return says(c.MergeRequests.GetMergeRequest(project, number, nil))(t).DetailedMergeStatus
	}
	says(asUser(t, h, "cleo").MergeRequestApprovals.ApproveMergeRequest(project, number, &gitlab.ApproveMergeRequestOptions{SHA: gitlab.Ptr(labState(t, h, number).Head)}))(t)
	_, resp, err := asUser(t, h, "bob").MergeRequestApprovals.ApproveMergeRequest(project, number, nil)
	refuses(t, resp, err, 401, "401 Unauthorized")
	a := says(c.MergeRequestApprovals.GetConfiguration(project, number))(t)
	if a.Approved || a.ApprovalsRequired != 2 || a.ApprovalsLeft != 1 || len(a.ApprovedBy) != 1 || a.ApprovedBy[0].User.Username != "cleo" || status() != "not_approved" {
		t.Errorf("with one approval %+v, %s", a, status())
	}
	get(h.Review(project, number, "ada", fakehost.Approved, ""))(t)
	if s := says(c.MergeRequestApprovals.GetApprovalState(project, number))(t); len(s.Rules) != 1 || !s.Rules[0].Approved || status() != "mergeable" {
		t.Errorf("with two %+v, %s", s, status())
	}
	get(h.PushTo(project, number, map[string]string{"one.txt": "again\n"}))(t)
	if status() != "approvals_syncing" || len(says(c.MergeRequestApprovals.GetConfiguration(project, number))(t).ApprovedBy) != 2 {
		t.Errorf("right after the push it is %s", status())
	}
	get(h.RunJobs())(t)
	if status() != "not_approved" || len(says(c.MergeRequestApprovals.GetConfiguration(project, number))(t).ApprovedBy) != 0 {
		t.Errorf("after the reset it is %s", status())
	}
	if v := says(c.MergeRequests.GetMergeRequestDiffVersions(project, number, nil))(t); len(v) != 2 || v[0].HeadCommitSHA != labState(t, h, number).Head {
		t.Errorf("versions %v", v)
	}

	h.SetGitLab(fakehost.GitLab{Free: true})
	get(h.Review(project, number, "cleo", fakehost.Approved, ""))(t)
	_, body := askLab(t, h, botLogin, "GET", fmt.Sprintf("/api/v4/projects/acme%%2Fapps%%2Fweb%%2Eone/merge_requests/%d/approvals", number), "")
	if !strings.Contains(body, `"approved":true`) || strings.Contains(body, "approvals_left") {
		t.Errorf("for free: %s", body)
	}
	if _, _, err := c.MergeRequestApprovals.GetApprovalState(project, number); !errors.Is(err, gitlab.ErrNotFound) {
		t.Errorf("rules for free: %v", err)
	}
	if status() != "mergeable" {
		t.Errorf("for free it is %s", status())
	}
}

func TestNotesAreWrittenListedAndAnsweredWithEmoji(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	number := labMR(t, h, "bob", "one", "one.txt")
	c := labBot(t, h)
	text := "/approve\r\nplease\r\n/batch\r\n"
	id := get(h.Comment(project, number, "cleo", text))(t)
	if n := says(c.Notes.GetMergeRequestNote(project, number, int(id)))(t); n.Body != "please\r\n/batch\r\n" || n.Author.Username != "cleo" || n.System {
		t.Errorf("read %+v: only what GitLab knows is taken out", n)
	}
	if r := labState(t, h, number).Reviews; len(r) != 1 || r[0].State != fakehost.Approved {
		t.Errorf("the quick action came to %v", r)
	}
	note := says(c.Notes.CreateMergeRequestNote(project, number, &gitlab.CreateMergeRequestNoteOptions{Body: gitlab.Ptr("riding")}))(t)
	says(c.Notes.UpdateMergeRequestNote(project, number, note.ID, &gitlab.UpdateMergeRequestNoteOptions{Body: gitlab.Ptr("landed")}))(t)
	all := says(c.Notes.ListMergeRequestNotes(project, number, &gitlab.ListMergeRequestNotesOptions{Sort: gitlab.Ptr("asc"), OrderBy: gitlab.Ptr("created_at")}))(t)
	var seen []string
	for _, n := range all {
		seen = append(seen, fmt.Sprintf("%v %s", n.System, strings.TrimSpace(n.Body)))
	}
	if want := []string{"true approved this merge request", "false please\r\n/batch", "false landed"}; !slices.Equal(seen, want) {
		t.Errorf("people see %q, want %q", seen, want)
	}
	eyes := &gitlab.CreateAwardEmojiOptions{Name: "eyes"}
	says(c.AwardEmoji.CreateMergeRequestAwardEmojiOnNote(project, number, int(id), eyes))(t)
	_, resp, err := c.AwardEmoji.CreateMergeRequestAwardEmojiOnNote(project, number, int(id), eyes)
	refuses(t, resp, err, 404, "")
	if got := labState(t, h, number).Comments[0].Reactions; len(got) != 1 || got[0].Content != "eyes" {
		t.Errorf("reactions %v", got)
	}
	_, resp, err = asUser(t, h, "bob").Notes.UpdateMergeRequestNote(project, number, note.ID, &gitlab.UpdateMergeRequestNoteOptions{Body: gitlab.Ptr("mine")})
	refuses(t, resp, err, 403, "403 Forbidden")
	if _, body := askLab(t, h, botLogin, "GET", "/api/v4/projects/acme%2Fapps%2Fweb.one/events?action=commented&sort=asc", ""); !strings.Contains(body, `"landed"`) || strings.Contains(body, "approved this") {
		t.Errorf("events %s", body)
	}
}

func TestMembersHaveLevelsAndStrangersNone(t *testing.T) {
	t.Parallel()
	h := newGitLab(t)
	c := labBot(t, h)
	for login, want := range map[string]gitlab.AccessLevelValue{"ada": 50, "max": 40, "bob": 30, "tess": 20, "gus": 10, botLogin: 40} {
		u := says(c.Users.ListUsers(&gitlab.ListUsersOptions{Username: gitlab.Ptr(login)}))(t)
		if m := says(c.ProjectMembers.GetInheritedProjectMember(project, u[0].ID))(t); m.AccessLevel != want || m.State != "active" {
			t.Errorf("%s has %d, want %d", login, m.AccessLevel, want)
		}
	}
	dan := says(c.Users.ListUsers(&gitlab.ListUsersOptions{Username: gitlab.Ptr("dan")}))(t)
	_, resp, err := c.ProjectMembers.GetInheritedProjectMember(project, dan[0].ID)
	refuses(t, resp, err, 404, "")
	if me := says(c.Users.CurrentUser())(t); me.Username != botLogin || !me.Bot {
		t.Errorf("the token is of %+v", me)
	}
}
