package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const labProject = "https://lab.example/api/v4/projects/acme%2Fapps%2Fweb"

// labSaid is what failed an exchange with a GitLab.
func labSaid(t *testing.T, method, url, body string, status int, answer string) []string {
	t.Helper()
	return exchange(t, GitLab, method, url, body, status, answer)
}

func TestWhatIsDescribedOfGitLabPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, url, body string
		status            int
		answer            string
	}{
		{"PUT", labProject + "/merge_requests/7/merge", `{"sha":"6dcb09b","squash":false}`, 405, `{"message":"405 Method Not Allowed"}`},
		{"GET", "https://lab.example/root/api/v4/projects/7/repository/branches/batchbot%2F7", "", 404, `{"message":"404 Branch Not Found"}`},
		{"GET", labProject + "/merge_requests?state=opened&per_page=100", "", 200, `[]`},
		{"GET", "https://lab.example/api/v4/user", "", 429, "Retry later\n"},
		{"POST", labProject + "/merge_requests", `{"source_branch":"b","target_branch":"main","title":"T"}`, 409, `{"message":["Another open merge request already exists for this source branch: !5"]}`},
		{"GET", "https://lab.example/acme/app.git/info/refs", "", 200, "anything"},
		{"POST", labProject + "/merge_requests/7/unapprove", "{}", 404, `{"error":"404 Not Found"}`},
	} {
		if said := labSaid(t, c.method, c.url, c.body, c.status, c.answer); len(said) > 0 {
			t.Errorf("%s %s: %v", c.method, c.url, said)
		}
	}
}

func TestWhatIsNotDescribedOfGitLabFails(t *testing.T) {
	t.Parallel()
	version := `{"version":"18.0.0","revision":"x"}`
	for name, c := range map[string]struct {
		method, url, body string
		status            int
		answer, says      string
	}{
		"no such operation":     {"POST", labProject + "/merge_requests/7/land", `{}`, 200, `{}`, "no such operation"},
		"a path not escaped":    {"GET", "https://lab.example/api/v4/projects/acme/apps/web", "", 200, `{}`, "no such operation"},
		"an unknown key":        {"PUT", labProject + "/merge_requests/7/merge", `{"guard":"x"}`, 405, `{}`, "/guard: GitLab does not know this key"},
		"a wrong type":          {"PUT", labProject + "/merge_requests/7/merge", `{"sha":7}`, 405, `{}`, "/sha: value must be a string"},
		"a wrong enum":          {"POST", labProject + "/statuses/6dcb09b", `{"state":"failure"}`, 400, `{}`, "/state: value is not one of the allowed values"},
		"a missing key":         {"POST", labProject + "/merge_requests/7/notes", `{}`, 400, `{}`, `property "body" is missing`},
		"an unknown parameter":  {"GET", labProject + "/merge_requests?branch=b", "", 200, `[]`, "query parameter branch"},
		"a wrong parameter":     {"GET", labProject + "/merge_requests?state=open", "", 200, `[]`, "query parameter state"},
		"a missing field":       {"GET", "https://lab.example/api/v4/version", "", 200, `{"version":"18"}`, `property "revision" is missing`},
		"a field too many":      {"GET", "https://lab.example/api/v4/version", "", 200, strings.Replace(version, "}", `,"x":1}`, 1), "/x: answer 200: GitLab does not know this key"},
		"an unlisted success":   {"GET", "https://lab.example/api/v4/version", "", 206, version, "answer 206: gitlab.yml does not list this status"},
		"a refusal of GitHub's": {"GET", "https://lab.example/api/v4/version", "", 403, `{"message":"no","documentation_url":"x"}`, "/documentation_url"},
	} {
		said := labSaid(t, c.method, c.url, c.body, c.status, c.answer)
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.says) }) {
			t.Errorf("%s: said %q, want %q", name, said, c.says)
		}
	}
}

func TestAGitLabWebhookThatLacksSomethingFails(t *testing.T) {
	t.Parallel()
	d, err := lab()
	if err != nil {
		t.Fatal(err)
	}
	for event, schema := range labHooks {
		full := complete(d.api.Components.Schemas[schema].Value, map[string]any{})
		body, err := json.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{TB: t}
		if GitLabWebhook(r, event, body); len(r.said) > 0 {
			t.Errorf("%s: said %q", event, r.said)
		}
		GitLabWebhook(r, event, []byte(strings.Replace(string(body), `"object_kind"`, `"kind"`, 1)))
		if said := strings.Join(r.said, "\n"); !strings.Contains(said, `"object_kind" is missing`) || !strings.Contains(said, "/kind: GitLab does not know this key") {
			t.Errorf("%s: said %q", event, said)
		}
	}
	r := &recorder{TB: t}
	if GitLabWebhook(r, "Emoji Hook", []byte("{}")); len(r.said) != 1 {
		t.Errorf("an event that is not used: said %q", r.said)
	}
}
