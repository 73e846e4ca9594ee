package gitlab_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/gitlab"
	"github.com/batchbot/batchbot/githost/hosttest"
)

// fragile is a world whose calls can be made to fail.
type fragile struct {
	*world
	sent atomic.Int64
}

var _ hosttest.Fragile = (*fragile)(nil)

// counting counts requests on their way out.
type counting struct {
	next http.RoundTripper
	sent *atomic.Int64
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.next.RoundTrip(req)
}

const (
	aProject = "/projects/*"
	someMR   = "/projects/*/merge_requests/*"
	firstMR  = "/projects/*/merge_requests/1"
)

func (f *fragile) Calls(errand string) []string {
	return map[string][]string{
		"ReadMR":         {"GET " + firstMR},
		"ListUpdatedMRs": {"GET /projects/*/merge_requests"},
		"Permission":     {"GET /users", "GET /projects/*/members/all/*"},
		"ReadApprovals": {
			"GET " + firstMR, "GET " + firstMR + "/approvals", "GET " + firstMR + "/reviewers", "GET " + firstMR + "/versions", "GET /projects/*/members/all/*",
		},
		"ReadChecks": {
			"GET " + aProject + "/pipelines", "GET " + aProject + "/statuses", "GET /projects/*/repository/commits/*/merge_requests", "GET " + firstMR + "/pipelines",
			"GET " + aProject + "/external_status_checks", "GET " + firstMR + "/status_checks",
		},
		"ReadTargetRules":  {"GET " + aProject, "GET " + aProject + "/approval_rules", "GET " + aProject + "/external_status_checks"},
		"FindMRs":          {"GET /projects/*/merge_requests"},
		"ListComments":     {"GET /projects/*/merge_requests", "GET " + firstMR + "/notes"},
		"ListRepositories": {"GET /projects"},
		"ReadRepository":   {"GET " + aProject},
		"ReadBranch":       {"GET " + aProject + "/repository/branches/main"},
		"ReadFile":         {"GET " + aProject + "/repository/files/README.md"},
		"SetCommitStatus":  {"POST " + aProject + "/statuses/*"},
		"OpenMR":           {"POST /projects/*/merge_requests"},
		"EditMR":           {"PUT " + someMR},
		"MergeMR":          {"GET " + someMR, "PUT " + someMR + "/merge"},
		"CloseMR":          {"PUT " + someMR},
		"UpsertComment":    {"GET " + someMR + "/notes", "POST " + someMR + "/notes"},
		"React":            {"POST " + someMR + "/notes/*/award_emoji"},
	}[errand]
}

func (f *fragile) Break(call string, trouble hosttest.Trouble) {
	f.t.Helper()
	kind := map[hosttest.Mishap]fakehost.FaultKind{
		hosttest.MishapStatus: fakehost.FaultStatus, hosttest.MishapLost: fakehost.FaultDrop, hosttest.MishapHang: fakehost.FaultHang, hosttest.MishapSlow: fakehost.FaultSlow,
		hosttest.MishapLimit: fakehost.FaultSecondaryLimit, hosttest.MishapPrimaryLimit: fakehost.FaultPrimaryLimit, hosttest.MishapRedirectedAway: fakehost.FaultRedirect,
	}[trouble.Do]
	f.must(f.fake.Break(fakehost.Fault{On: call, Times: 1, Do: kind, Status: trouble.Status, Wait: trouble.Wait, Late: trouble.Late, To: "http://elsewhere.test"}))
}

func (f *fragile) Heal() (struck int) {
	for _, fault := range f.fake.Broken() {
		struck += fault.Struck
	}
	f.fake.Heal()
	return struck
}

func (f *fragile) Sent() int { return int(f.sent.Load()) }

func (f *fragile) Secrets() []string { return []string{"batchbot-token", secret, "PRIVATE-TOKEN"} }

func TestConformanceUnderTrouble(t *testing.T) {
	t.Parallel()
	hosttest.RunTroubles(t, func(t *testing.T) hosttest.Fragile {
		f := &fragile{}
		f.world = newWorldAs(t, fakehost.GitLab{}, func(c *gitlab.Config) {
			c.Timeout = 30 * time.Second
			c.HTTPTransport = counting{c.HTTPTransport, &f.sent}
		})
		return f
	})
}
