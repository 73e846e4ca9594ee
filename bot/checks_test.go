package bot

import (
	"testing"
	"time"
)

func TestJudgeChecks(t *testing.T) {
	t.Parallel()
	check := func(name, source string, state CheckState) Check {
		return Check{Name: name, Source: source, State: state}
	}
	seen := DefaultQueueSettings("main").Checks
	listed := seen
	listed.Required = []string{"build", "test"}
	for _, c := range []struct {
		name    string
		policy  CheckPolicy
		report  ChecksReport
		openFor time.Duration
		quiet   time.Duration
		want    CIVerdict
	}{
		{"nothing yet", seen, ChecksReport{}, time.Second, time.Second, CIPending},
		{"nothing after the grace period", seen, ChecksReport{}, seen.NoneAfter, time.Hour, CIMissing},
		{"only our own status is no CI", seen, ChecksReport{Checks: []Check{{Name: "batchbot", Own: true, State: CheckSuccess}}}, time.Hour, time.Hour, CIMissing},
		{"required checks that never appear are no CI", listed, ChecksReport{}, time.Hour, time.Hour, CIMissing},
		{"green but not quiet", seen, ChecksReport{Checks: []Check{check("a", "1", CheckSuccess)}}, time.Minute, 29 * time.Second, CIPending},
		{"green and quiet", seen, ChecksReport{Checks: []Check{check("a", "1", CheckSuccess)}}, time.Minute, 30 * time.Second, CIGreen},
		{"one of two still runs", seen, ChecksReport{Checks: []Check{check("a", "1", CheckSuccess), check("b", "1", CheckPending)}}, time.Hour, time.Hour, CIPending},
		{"red does not wait for the rest", seen, ChecksReport{Checks: []Check{check("a", "1", CheckFailure), check("b", "1", CheckPending)}}, time.Second, 0, CIRed},
		{"cancelled is not red", seen, ChecksReport{Checks: []Check{check("a", "1", CheckCancelled), check("b", "1", CheckSuccess)}}, time.Hour, time.Hour, CICancelled},
		{"listed checks need no quiet time", listed, ChecksReport{Checks: []Check{check("build", "1", CheckSuccess), check("test", "1", CheckSuccess)}}, 0, 0, CIGreen},
		{"a listed check is absent", listed, ChecksReport{Checks: []Check{check("build", "1", CheckSuccess)}}, time.Hour, time.Hour, CIPending},
		{"what is not listed does not matter", listed, ChecksReport{Checks: []Check{check("build", "1", CheckSuccess), check("test", "1", CheckSuccess), check("lint", "1", CheckFailure)}}, 0, 0, CIGreen},
		{"the list goes before the host's rules", listed, ChecksReport{Checks: []Check{check("build", "1", CheckSuccess), check("test", "1", CheckSuccess)}, Required: []RequiredCheck{{Name: "lint"}}}, 0, 0, CIGreen},
		{"the host requires a check of one source", seen, ChecksReport{Checks: []Check{check("a", "2", CheckSuccess)}, Required: []RequiredCheck{{"a", "1"}}}, time.Hour, time.Hour, CIPending},
		{"of two sources of one name the red one counts", listed, ChecksReport{Checks: []Check{check("build", "1", CheckSuccess), check("build", "2", CheckFailure), check("test", "1", CheckSuccess)}}, 0, 0, CIRed},
		{"of two runs of one check the newest counts", seen, ChecksReport{Checks: []Check{{Name: "a", Source: "1", State: CheckFailure, Order: 1}, {Name: "a", Source: "1", State: CheckSuccess, Order: 2}}}, time.Hour, time.Hour, CIGreen},
		{"even if it is listed first", seen, ChecksReport{Checks: []Check{{Name: "a", Source: "1", State: CheckFailure, Order: 2}, {Name: "a", Source: "1", State: CheckSuccess, Order: 1}}}, time.Hour, time.Hour, CIRed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := JudgeChecks(c.policy, c.report, c.openFor, c.quiet); got.Verdict != c.want {
				t.Errorf("JudgeChecks = %s (%v), want %s", got.Verdict, got.Checks, c.want)
			}
		})
	}
}

func TestTheFingerprintNamesTheSetAndNotItsState(t *testing.T) {
	t.Parallel()
	running := ChecksReport{Checks: []Check{{Name: "a", State: CheckPending}, {Name: "b", State: CheckPending}}}
	done := ChecksReport{Checks: []Check{{Name: "b", State: CheckSuccess}, {Name: "a", State: CheckFailure}, {Name: "batchbot", Own: true}}}
	more := ChecksReport{Checks: append(done.Checks, Check{Name: "c"})}
	if running.Fingerprint() != done.Fingerprint() {
		t.Error("a check that ends looks like a new one")
	}
	if more.Fingerprint() == done.Fingerprint() {
		t.Error("a new check goes unnoticed")
	}
}
