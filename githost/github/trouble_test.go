package github_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/githost/fakehost"
	"github.com/batchbot/batchbot/githost/github"
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

func (f *fragile) Calls(errand string) []string {
	const repo = "/repos/acme/app"
	return map[string][]string{
		"ReadMR":         {"GET " + repo + "/pulls/1"},
		"ListUpdatedMRs": {"GET " + repo + "/pulls"},
		"Permission":     {"GET " + repo + "/collaborators/max/permission"},
		"ReadApprovals":  {"GET " + repo + "/pulls/1/reviews", "GET " + repo + "/collaborators/ada/permission", "POST /api/graphql"},
		"ReadChecks": {
			"GET " + repo + "/commits/*/check-runs", "GET " + repo + "/commits/*/status", "GET " + repo + "/rules/branches/main", "GET " + repo + "/branches/main/protection",
		},
		"ReadTargetRules":  {"GET " + repo + "/rules/branches/main", "GET " + repo + "/branches/main/protection", "GET /repositories/*"},
		"FindMRs":          {"GET " + repo + "/pulls"},
		"ListComments":     {"GET " + repo + "/issues/comments"},
		"ListRepositories": {"GET /app/installations"}, // what follows is an installation's, and a limit of it none of the App's
		"ReadRepository":   {"GET /repositories/*"},
		"ReadBranch":       {"GET " + repo + "/git/ref/heads/main"},
		"ReadFile":         {"GET " + repo + "/contents/README.md"},
		"SetCommitStatus":  {"POST " + repo + "/check-runs"},
		"OpenMR":           {"POST " + repo + "/pulls"},
		"EditMR":           {"PATCH " + repo + "/pulls/*"},
		"MergeMR":          {"PUT " + repo + "/pulls/*/merge"},
		"CloseMR":          {"PATCH " + repo + "/pulls/*"},
		"UpsertComment":    {"GET " + repo + "/issues/*/comments", "POST " + repo + "/issues/*/comments"},
		"React":            {"POST " + repo + "/issues/comments/*/reactions"},
	}[errand]
}

func (f *fragile) Break(call string, trouble hosttest.Trouble) {
	f.t.Helper()
	kind := map[hosttest.Mishap]fakehost.FaultKind{
		hosttest.MishapStatus: fakehost.FaultStatus, hosttest.MishapLost: fakehost.FaultDrop, hosttest.MishapHang: fakehost.FaultHang, hosttest.MishapSlow: fakehost.FaultSlow,
		hosttest.MishapLimit: fakehost.FaultSecondaryLimit, hosttest.MishapPrimaryLimit: fakehost.FaultPrimaryLimit, hosttest.MishapRedirectedAway: fakehost.FaultRedirect,
	}[trouble.Do]
	f.must(f.fake.Break(fakehost.Fault{On: call, Times: 1, Do: kind, Status: trouble.Status, Wait: trouble.Wait, Late: trouble.Late, To: elsewhere}))
}

func (f *fragile) Heal() (struck int) {
	for _, fault := range f.fake.Broken() {
		struck += fault.Struck
	}
	f.fake.Heal()
	return struck
}

func (f *fragile) Sent() int { return int(f.sent.Load()) }

func (f *fragile) Secrets() []string { return []string{"ghs_", "Bearer", "PRIVATE KEY", "eyJ", secret} }

func TestConformanceUnderTrouble(t *testing.T) {
	t.Parallel()
	appKey()
	hosttest.RunTroubles(t, func(t *testing.T) hosttest.Fragile {
		f := &fragile{}
		f.world = newWorldAs(t, func(c *github.Config) {
			c.Timeout = 30 * time.Second
			c.HTTPTransport = counting{c.HTTPTransport, &f.sent}
		})
		return f
	})
}
