package bot

import (
	"strings"
	"testing"
)

func TestJudgeApproval(t *testing.T) {
	t.Parallel()
	author := Actor{ID: 1, Login: "author"}
	writer := func(id int64) Actor { return Actor{ID: id, Login: "writer" + string(rune('0'+id))} }
	review := func(by Actor, state ReviewState, sha string) Review {
		return Review{By: by, State: state, SHA: sha, Permission: PermissionWrite}
	}
	one := ApprovalPolicy{Count: 1, Minimum: PermissionWrite}
	for _, c := range []struct {
		name      string
		policy    ApprovalPolicy
		approvals Approvals
		missing   string // substring; empty: sufficient
	}{
		{"nobody", one, Approvals{}, "needs 1 more approval at abc from somebody with write access"},
		{"a writer at the head", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc")}}, ""},
		{"the author's own approval", one, Approvals{Reviews: []Review{review(author, ReviewApproved, "abc")}}, "needs 1 more"},
		{"an approval of an earlier commit", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "old")}}, "the approval of writer2 was for an earlier commit"},
		{"an approval of a commit the host forgot", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "")}}, "needs 1 more"},
		{"a bot", one, Approvals{Reviews: []Review{{By: Actor{ID: 5, Login: "b", Bot: true}, State: ReviewApproved, SHA: "abc", Permission: PermissionAdmin}}}, "needs 1 more"},
		{"somebody who may only read", one, Approvals{Reviews: []Review{{By: writer(2), State: ReviewApproved, SHA: "abc", Permission: PermissionRead}}}, "needs 1 more"},
		{"a maintainer where maintainers are asked for", ApprovalPolicy{1, PermissionMaintain}, Approvals{Reviews: []Review{{By: writer(2), State: ReviewApproved, SHA: "abc", Permission: PermissionAdmin}}}, ""},
		{"a writer where maintainers are asked for", ApprovalPolicy{1, PermissionMaintain}, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc")}}, "with maintain access"},
		{"one person twice is one approval", ApprovalPolicy{2, PermissionWrite}, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), review(writer(2), ReviewApproved, "abc")}}, "needs 1 more"},
		{"two people", ApprovalPolicy{2, PermissionWrite}, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), review(writer(3), ReviewApproved, "abc")}}, ""},
		{"changes requested block", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), review(writer(3), ReviewChangesRequested, "old")}}, "changes are requested by writer3"},
		{"changes requested by somebody without weight", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), {By: writer(3), State: ReviewChangesRequested, Permission: PermissionRead}}}, ""},
		{"a later approval lifts changes requested", one, Approvals{Reviews: []Review{review(writer(3), ReviewChangesRequested, "abc"), review(writer(3), ReviewApproved, "abc")}}, ""},
		{"a dismissed review does not revive an older approval", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), review(writer(2), ReviewDismissed, "abc")}}, "needs 1 more"},
		{"a comment changes no opinion", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc"), review(writer(2), ReviewCommented, "abc")}}, ""},
		{"the host's own rule wants more", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc")}, Decision: HostDecisionRequired}, "the host's own review rules"},
		{"the host has no rule", one, Approvals{Reviews: []Review{review(writer(2), ReviewApproved, "abc")}, Decision: HostDecisionNone}, ""},
		{"no approval asked for", ApprovalPolicy{0, PermissionWrite}, Approvals{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := JudgeApproval(c.policy, author, "abc", c.approvals)
			if v.Sufficient != (c.missing == "") || !strings.Contains(v.Missing, c.missing) {
				t.Errorf("JudgeApproval = %+v, want missing %q", v, c.missing)
			}
		})
	}
}
