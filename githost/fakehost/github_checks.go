package fakehost

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// getCommitThing answers everything below /commits/: what is asked comes after
// a ref that may contain slashes.
func getCommitThing(c *call) (int, any, error) {
	rest := c.req.PathValue("rest")
	for suffix, f := range map[string]func(*call, string) (int, any, error){
		"/check-runs": listCheckRuns, "/check-suites": listCheckSuites, "/status": combinedStatus, "/statuses": listStatuses, "/pulls": listPullsOfCommit,
	} {
		if ref, ok := strings.CutSuffix(rest, suffix); ok {
			sha := c.h.resolve(c.repo, ref)
			if sha == "" {
				return 0, nil, noCommit(ref)
			}
			return f(c, sha)
		}
	}
	sha := c.h.resolve(c.repo, rest)
	if sha == "" {
		return 0, nil, noCommit(rest)
	}
	k, err := c.h.commitAt(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	if strings.Contains(c.req.Header.Get("Accept"), "sha") {
		c.rawBody = []byte(sha)
		return http.StatusOK, nil, nil
	}
	o := c.gh.gitCommit(c.repo, k)
	o["stats"] = object{"additions": 0, "deletions": 0, "total": 0}
	o["files"] = []object{}
	if len(k.Parents) > 0 {
		if o["files"], err = c.changed(k.Parents[0], sha); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, o, nil
}

func noCommit(ref string) error {
	return &apiError{status: 422, message: "No commit found for SHA: " + ref}
}

func listCheckRuns(c *call, sha string) (int, any, error) {
	latest := c.query("filter") != "all"
	var found []*check
	for _, s := range c.repo.suites {
		if s.SHA != sha {
			continue
		}
		runs := s.runs
		if latest {
			runs = s.latest()
		}
		for _, k := range runs {
			if (c.query("check_name") == "" || c.query("check_name") == k.Name) && (c.query("status") == "" || c.query("status") == k.Status) {
				found = append(found, k)
			}
		}
	}
	return http.StatusOK, object{
		"total_count": len(found), "check_runs": list(page(c, found), func(k *check) object { return c.gh.check(c.repo, k) }),
	}, nil
}

func listCheckSuites(c *call, sha string) (int, any, error) {
	var found []*suite
	for _, s := range c.repo.suites {
		if s.SHA == sha {
			found = append(found, s)
		}
	}
	return http.StatusOK, object{
		"total_count": len(found),
		"check_suites": list(page(c, found), func(s *suite) object {
			o := c.gh.suite(c.repo, s)
			o["repository"] = c.gh.repo(c.repo)
			return o
		}),
	}, nil
}

// newestStatuses are the statuses of a commit, newest first.
func (c *call) newestStatuses(sha string) []*status {
	var found []*status
	for _, s := range c.repo.statuses {
		if s.SHA == sha {
			found = append(found, s)
		}
	}
	slices.Reverse(found)
	return found
}

func combinedStatus(c *call, sha string) (int, any, error) {
	seen := map[string]bool{}
	var latest []*status
	for _, s := range c.newestStatuses(sha) {
		if !seen[s.Context] {
			seen[s.Context] = true
			latest = append(latest, s)
		}
	}
	// No status at all is "pending" too.
	state := "success"
	if len(latest) == 0 {
		state = "pending"
	}
	for _, s := range latest {
		switch {
		case s.State == "failure" || s.State == "error":
			state = "failure"
		case s.State == "pending" && state == "success":
			state = "pending"
		}
	}
	return http.StatusOK, object{
		"state": state, "sha": sha, "total_count": len(latest), "statuses": list(page(c, latest), c.combinedPart),
		"repository": c.gh.repo(c.repo), "commit_url": c.gh.api("/repos/%s/commits/%s", c.repo.fullName(), sha),
		"url": c.gh.api("/repos/%s/commits/%s/status", c.repo.fullName(), sha),
	}, nil
}

// combinedPart is a status inside of a combined one, which does not say who wrote it.
func (c *call) combinedPart(s *status) object {
	o := c.gh.status(c.repo, s)
	delete(o, "creator")
	return o
}

func listStatuses(c *call, sha string) (int, any, error) {
	return http.StatusOK, list(page(c, c.newestStatuses(sha)), func(s *status) object { return c.gh.status(c.repo, s) }), nil
}

func listPullsOfCommit(c *call, sha string) (int, any, error) {
	var found []*mergeRequest
	for _, m := range c.repo.mrs() {
		commits, err := c.h.between(c.repo, m.BaseSHA, m.Head)
		if err != nil {
			return 0, nil, err
		}
		if m.MergeSHA == sha || slices.Contains(commits, sha) {
			found = append(found, m)
		}
	}
	return http.StatusOK, list(page(c, found), func(m *mergeRequest) object { return c.gh.shortPull(c.repo, m) }), nil
}

func createStatus(c *call) (int, any, error) {
	if err := c.need(RoleWrite); err != nil {
		return 0, nil, err
	}
	var in struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if len(in.Description) > 140 {
		return 0, nil, &refusal{refusedInvalid, "description", "description is too long (maximum is 140 characters)"}
	}
	s := &status{
		SHA: c.h.resolve(c.repo, c.req.PathValue("sha")), State: in.State, Context: in.Context, Description: in.Description, Link: in.TargetURL, Creator: c.who.user,
	}
	if err := c.h.addStatus(c.repo, s); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.gh.status(c.repo, s), nil
}

type checkInput struct {
	Name        *string    `json:"name"`
	HeadSHA     string     `json:"head_sha"`
	Status      *string    `json:"status"`
	Conclusion  *string    `json:"conclusion"`
	ExternalID  *string    `json:"external_id"`
	DetailsURL  *string    `json:"details_url"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	Output      *struct {
		Title, Summary, Text *string
	} `json:"output"`
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (in checkInput) fill(k *check) error {
	set(&k.Name, in.Name)
	set(&k.Status, in.Status)
	set(&k.Conclusion, in.Conclusion)
	set(&k.ExternalID, in.ExternalID)
	set(&k.Link, in.DetailsURL)
	set(&k.Started, in.StartedAt)
	set(&k.Completed, in.CompletedAt)
	if in.Output != nil {
		set(&k.Title, in.Output.Title)
		set(&k.Summary, in.Output.Summary)
		set(&k.Text, in.Output.Text)
	}
	if k.Conclusion != "" {
		k.Status = "completed"
	}
	switch {
	case k.Name == "":
		return &refusal{refusedInvalid, "name", "name is missing"}
	case !slices.Contains([]string{"queued", "in_progress", "completed"}, k.Status):
		return &refusal{refusedInvalid, "status", "status is not queued, in_progress or completed"}
	case k.Status == "completed" && !slices.Contains([]string{"action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out"}, k.Conclusion):
		return &refusal{refusedInvalid, "conclusion", "a completed check run needs a conclusion"}
	}
	return nil
}

// byApp refuses everybody but the App: check runs belong to apps.
func (c *call) byApp() error {
	if c.who.user != nil && c.who.inst == nil {
		return &apiError{status: 403, message: "You must authenticate via a GitHub App."}
	}
	return c.need(RoleWrite)
}

func createCheckRun(c *call) (int, any, error) {
	if err := c.byApp(); err != nil {
		return 0, nil, err
	}
	var in checkInput
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	sha := c.h.resolve(c.repo, in.HeadSHA)
	if sha == "" {
		return 0, nil, noCommit(in.HeadSHA)
	}
	k := &check{Status: "queued"}
	if err := in.fill(k); err != nil {
		return 0, nil, err
	}
	s, _ := c.h.suite(c.repo, sha, c.branchAt(sha), c.h.slug())
	if err := c.h.addCheck(c.repo, s, k, c.who.user); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.gh.check(c.repo, k), nil
}

// branchAt is a branch whose tip is sha, "" when there is none.
func (c *call) branchAt(sha string) string {
	for _, b := range sortedKeys(c.repo.branches) {
		if c.repo.branches[b] == sha {
			return b
		}
	}
	return ""
}

func (c *call) check() (*check, error) {
	id := c.number("id")
	for _, k := range c.repo.checks {
		if k.ID == id {
			return k, nil
		}
	}
	return nil, errNotFound
}

func getCheckRun(c *call) (int, any, error) {
	k, err := c.check()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.check(c.repo, k), nil
}

func updateCheckRun(c *call) (int, any, error) {
	k, err := c.check()
	if err != nil {
		return 0, nil, err
	}
	if err := c.byApp(); err != nil {
		return 0, nil, err
	}
	if k.Suite.App != c.h.slug() {
		return 0, nil, errNotByApp
	}
	var in checkInput
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	was, changed := k.Status, *k
	if err := in.fill(&changed); err != nil {
		return 0, nil, err
	}
	*k = changed
	if k.Status == "completed" && was != "completed" {
		if err := c.h.checkCompleted(c.repo, k, c.who.user); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, c.gh.check(c.repo, k), nil
}

func rerequestCheckRun(c *call) (int, any, error) {
	k, err := c.check()
	if err != nil {
		return 0, nil, err
	}
	return c.rerequest(k.Suite)
}

func rerequestCheckSuite(c *call) (int, any, error) {
	id := c.number("id")
	for _, s := range c.repo.suites {
		if s.ID == id {
			return c.rerequest(s)
		}
	}
	return 0, nil, errNotFound
}

func (c *call) rerequest(s *suite) (int, any, error) {
	if err := c.byApp(); err != nil {
		return 0, nil, err
	}
	if err := c.h.rerun(c.repo, s); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, object{}, nil
}
