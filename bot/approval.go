package bot

import (
	"fmt"
	"slices"
	"strings"
)

// ReviewState is one person's word on a merge request.
type ReviewState int

// The states. The zero value is invalid.
const (
	ReviewApproved ReviewState = iota + 1
	ReviewChangesRequested
	ReviewDismissed
	ReviewCommented
)

// Review is one review as the host lists it.
type Review struct {
	By         Actor
	State      ReviewState
	SHA        string     // the commit reviewed; empty when the host no longer knows it
	Permission Permission // of By, read when its latest opinion counts
}

// HostDecision is the host's own verdict about a merge request's approvals.
type HostDecision int

// The decisions. The zero value says the host was not asked or has no such verdict.
const (
	HostDecisionUnknown  HostDecision = iota
	HostDecisionApproved              // the host's rules are satisfied
	HostDecisionRequired              // the host's rules want more reviews
	HostDecisionBlocked               // changes requested
	HostDecisionNone                  // the host has no rule here
)

// Approvals is what the host knows about who approved a merge request.
type Approvals struct {
	Reviews  []Review // oldest first
	Decision HostDecision
}

// For returns the policy as it applies to one merge request. In a batch the head of a fork runs with the repository's own secrets, so it
// rides only with an approval of somebody with write access, whatever the repository's settings leave out; one that changes what CI does, only
// with a maintainer's.
func (p ApprovalPolicy) For(mr MRSnapshot) ApprovalPolicy {
	if !mr.FromFork {
		return p
	}
	least := PermissionWrite
	if mr.ChangesCI {
		least = PermissionMaintain
	}
	p.Count = max(p.Count, 1)
	if !p.Minimum.AtLeast(least) {
		p.Minimum = least
	}
	return p
}

// ApprovalVerdict says whether a merge request is approved at its head, by whom, and if not what is missing.
type ApprovalVerdict struct {
	Sufficient bool
	Approvers  []string // logins, sorted
	Missing    string   // for people, without a final stop; empty when Sufficient
}

// JudgeMR applies a queue's policy to a merge request as it was read, a fork's more strictly.
func JudgeMR(policy ApprovalPolicy, mr MRSnapshot, approvals Approvals) ApprovalVerdict {
	v := JudgeApproval(policy.For(mr), mr.Author, mr.HeadSHA, approvals)
	if !v.Sufficient && mr.FromFork && mr.ChangesCI {
		v.Missing += ", because it comes from a fork and changes what CI does"
	}
	return v
}

// JudgeApproval applies a queue's policy to a merge request at head. The last opinion of each reviewer counts: comments are no opinion, a
// dismissed review is none and does not revive an older one, changes requested by somebody whose approval would count block,
// an approval of another commit counts for nothing, nor does that of the author or of a bot.
func JudgeApproval(policy ApprovalPolicy, author Actor, head string, approvals Approvals) ApprovalVerdict {
	latest := make(map[int64]Review)
	for _, r := range approvals.Reviews {
		if r.State != ReviewCommented {
			latest[r.By.ID] = r
		}
	}
	var approvers, blockers, stale []string
	for _, r := range latest {
		if r.By.ID == author.ID || r.By.Bot || !r.Permission.AtLeast(policy.Minimum) {
			continue
		}
		switch {
		case r.State == ReviewChangesRequested:
			blockers = append(blockers, r.By.Login)
		case r.State == ReviewApproved && r.SHA == head:
			approvers = append(approvers, r.By.Login)
		case r.State == ReviewApproved:
			stale = append(stale, r.By.Login)
		}
	}
	for _, names := range [][]string{approvers, blockers, stale} {
		slices.Sort(names)
	}
	v := ApprovalVerdict{Approvers: approvers}
	switch lacking := policy.Count - len(approvers); {
	case len(blockers) > 0:
		v.Missing = "changes are requested by " + strings.Join(blockers, ", ")
	case lacking > 0:
		v.Missing = fmt.Sprintf("needs %s at %s from somebody with %s access", moreApprovals(lacking), ShortSHA(head), policy.Minimum)
		if len(stale) > 0 {
			v.Missing += fmt.Sprintf("; the approval of %s was for an earlier commit", strings.Join(stale, ", "))
		}
	case approvals.Decision == HostDecisionBlocked || approvals.Decision == HostDecisionRequired:
		v.Missing = "the host's own review rules for the target branch are not satisfied yet"
	default:
		v.Sufficient = true
	}
	return v
}

func moreApprovals(n int) string {
	if n == 1 {
		return "1 more approval"
	}
	return fmt.Sprintf("%d more approvals", n)
}

// ShortSHA abbreviates a commit id for people.
func ShortSHA(sha string) string {
	if len(sha) > 7 {
		return sha[:7]
	}
	return sha
}
