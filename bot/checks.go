package bot

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// CheckState is the state of one check or status on a commit.
type CheckState int

// The states. The zero value is invalid.
const (
	CheckPending CheckState = iota + 1
	CheckSuccess            // also skipped and neutral
	CheckFailure
	CheckCancelled // also stale and timed out by the host: nobody's fault
)

// Check is one check run or commit status. Of several runs of one name and source the newest counts.
type Check struct {
	Name   string
	Source string // who reports it: the app's id, or "status"
	Own    bool   // written by the bot itself
	State  CheckState
	URL    string
	Order  int64 // larger is newer within the same name and source
}

// RequiredCheck is a check the host demands on a target branch.
type RequiredCheck struct {
	Name   string
	Source string // empty: anybody
}

// ChecksReport is all that is reported on a commit and all that the host requires for the target.
type ChecksReport struct {
	Checks   []Check
	Required []RequiredCheck
}

// CIVerdict is what the checks say about a batch head.
type CIVerdict int

// The verdicts. The zero value is invalid.
const (
	CIPending CIVerdict = iota + 1
	CIGreen
	CIRed
	CICancelled // something was cancelled and nothing is red: not blamed on anybody
	CIMissing   // no check at all after the grace period
)

// String returns the verdict in lower case.
func (v CIVerdict) String() string {
	return nameOf(int(v), "pending", "green", "red", "cancelled", "missing")
}

// CIJudgement is a verdict with what it rests on.
type CIJudgement struct {
	Verdict CIVerdict
	Checks  []Check // those that decided: the red ones, else those still pending
}

// JudgeChecks decides about a commit. The required set is the policy's, else the host's; without either every check seen counts,
// but our own, once none is pending and no new one appeared for the policy's quiet time. Of two checks of one name from
// different sources a red one counts. openFor is how long the batch head has been open for checks; quiet how long the set of
// checks has not changed.
func JudgeChecks(policy CheckPolicy, report ChecksReport, openFor, quiet time.Duration) CIJudgement {
	checks := newest(report.Checks)
	required := report.Required
	if len(policy.Required) > 0 {
		required = nil
		for _, name := range policy.Required {
			required = append(required, RequiredCheck{Name: name})
		}
	}
	if len(checks) == 0 && openFor >= policy.NoneAfter {
		return CIJudgement{Verdict: CIMissing}
	}
	counted, absent := checks, false
	if len(required) > 0 {
		counted = nil
		for _, r := range required {
			var found bool
			for _, c := range checks {
				if c.Name == r.Name && (r.Source == "" || r.Source == c.Source) {
					counted, found = append(counted, c), true
				}
			}
			absent = absent || !found
		}
	}
	pick := func(state CheckState) []Check {
		return slices.DeleteFunc(slices.Clone(counted), func(c Check) bool { return c.State != state })
	}
	if red := pick(CheckFailure); len(red) > 0 {
		return CIJudgement{CIRed, red}
	}
	if pending := pick(CheckPending); len(pending) > 0 {
		return CIJudgement{CIPending, pending}
	}
	if cancelled := pick(CheckCancelled); len(cancelled) > 0 {
		return CIJudgement{CICancelled, cancelled}
	}
	if absent || len(counted) == 0 || (len(required) == 0 && quiet < policy.QuietTime) {
		return CIJudgement{Verdict: CIPending}
	}
	return CIJudgement{CIGreen, counted}
}

// newest keeps the newest check per name and source and drops our own.
func newest(all []Check) []Check {
	type key struct{ name, source string }
	best := make(map[key]Check)
	for _, c := range all {
		if c.Own {
			continue
		}
		k := key{c.Name, c.Source}
		if old, ok := best[k]; !ok || c.Order > old.Order {
			best[k] = c
		}
	}
	var out []Check
	for _, c := range best {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Check) int {
		return strings.Compare(a.Name+"\x00"+a.Source, b.Name+"\x00"+b.Source)
	})
	return out
}

// Fingerprint names the set of checks seen, whatever their state, so that the appearance of a new one is noticed.
func (r ChecksReport) Fingerprint() string {
	h := sha256.New()
	for _, c := range newest(r.Checks) {
		h.Write([]byte(c.Name + "\x00" + c.Source + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
