package fakehost

import (
	"net/http"
	"net/url"
	"strings"
)

// glRoute is one endpoint; a segment that starts with a colon is a variable.
type glRoute struct {
	method   string
	segments []string
	f        glEndpoint
}

// match finds the endpoint for an escaped path and fills in its variables.
func (g *gitlab) match(method, path string, vars map[string]string) (glEndpoint, error) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		clear, err := url.PathUnescape(p)
		if err != nil {
			return nil, errGLNoEndpoint
		}
		parts[i] = clear
	}
	refused := errGLNoEndpoint
	for _, r := range g.table {
		if !r.fits(parts) {
			continue
		}
		if r.method != method {
			refused = &glError{status: 405, message: "405 Not Allowed", field: "error"}
			continue
		}
		for i, s := range r.segments {
			if name, ok := strings.CutPrefix(s, ":"); ok {
				vars[name] = parts[i]
			}
		}
		return r.f, nil
	}
	return nil, refused
}

func (r glRoute) fits(parts []string) bool {
	if len(parts) != len(r.segments) {
		return false
	}
	for i, s := range r.segments {
		if s != parts[i] && !strings.HasPrefix(s, ":") {
			return false
		}
	}
	return true
}

// endpoints lists what is served; the first that fits answers, so fixed words
// stand before variables.
func (g *gitlab) endpoints() []glRoute {
	var table []glRoute
	on := func(pattern string, f glEndpoint) {
		method, path, _ := strings.Cut(pattern, " ")
		table = append(table, glRoute{method: method, segments: strings.Split(path, "/"), f: f})
	}
	const project = "projects/:id"
	const mr = project + "/merge_requests/:iid"

	on("GET version", glVersion)
	on("GET metadata", glVersion)
	on("GET user", glMe)
	on("GET users", glListUsers)
	on("GET users/:user", glGetUser)

	on("GET projects", glListProjects)
	on("GET "+project, glGetProject)
	on("PUT "+project, glEditProject)
	on("GET "+project+"/members/all", glListMembers)
	on("GET "+project+"/members/all/:user", glGetMember)
	on("GET "+project+"/members/:user", glGetMember)
	on("GET "+project+"/protected_branches", glListProtected)
	on("GET "+project+"/protected_branches/:branch", glGetProtected)
	on("GET "+project+"/events", glListEvents)
	on("GET "+project+"/approvals", glApprovalSettings)
	on("GET "+project+"/approval_rules", glProjectRules)
	on("GET "+project+"/external_status_checks", glStatusChecks)

	on("GET "+project+"/merge_requests", glListMRs)
	on("POST "+project+"/merge_requests", glCreateMR)
	on("GET "+mr, glGetMR)
	on("PUT "+mr, glUpdateMR)
	on("PUT "+mr+"/merge", glAccept)
	on("POST "+mr+"/cancel_merge_when_pipeline_succeeds", glCancelAuto)
	on("POST "+mr+"/approve", glApprove)
	on("POST "+mr+"/unapprove", glUnapprove)
	on("GET "+mr+"/approvals", glApprovals)
	on("GET "+mr+"/approval_state", glApprovalState)
	on("GET "+mr+"/approval_rules", glApprovalRules)
	on("GET "+mr+"/reviewers", glReviewers)
	on("GET "+mr+"/status_checks", glMRStatusChecks)
	on("GET "+mr+"/commits", glMRCommits)
	on("GET "+mr+"/versions", glVersions)
	on("GET "+mr+"/pipelines", glMRPipelines)
	on("GET "+mr+"/discussions", glDiscussions)
	on("GET "+mr+"/notes", glListNotes)
	on("POST "+mr+"/notes", glCreateNote)
	on("GET "+mr+"/notes/:note", glGetNote)
	on("PUT "+mr+"/notes/:note", glEditNote)
	on("DELETE "+mr+"/notes/:note", glDeleteNote)
	on("GET "+mr+"/notes/:note/award_emoji", glListEmoji)
	on("POST "+mr+"/notes/:note/award_emoji", glAwardEmoji)

	on("GET "+project+"/pipelines", glListPipelines)
	on("GET "+project+"/pipelines/latest", glLatestPipeline)
	on("GET "+project+"/pipelines/:pipeline", glGetPipeline)
	on("GET "+project+"/pipelines/:pipeline/jobs", glJobs)
	on("POST "+project+"/pipelines/:pipeline/retry", glRetryPipeline)
	on("POST "+project+"/statuses/:sha", glSetStatus)

	const repo = project + "/repository"
	on("GET "+repo+"/branches", glListBranches)
	on("GET "+repo+"/branches/:branch", glGetBranch)
	on("DELETE "+repo+"/branches/:branch", glDeleteBranch)
	on("GET "+repo+"/commits", glListCommits)
	on("GET "+repo+"/commits/:sha", glGetCommit)
	on("GET "+repo+"/commits/:sha/statuses", glListStatuses)
	on("GET "+repo+"/commits/:sha/merge_requests", glCommitMRs)
	on("GET "+repo+"/compare", glCompare)
	on("GET "+repo+"/merge_base", glMergeBase)
	on("GET "+repo+"/files/:path", glGetFile)
	on("GET "+repo+"/files/:path/raw", glGetRawFile)

	on("GET "+project+"/hooks", glListHooks)
	on("POST "+project+"/hooks", glCreateHook)
	on("GET "+project+"/hooks/:hook", glGetHook)
	on("PUT "+project+"/hooks/:hook", glEditHook)
	on("DELETE "+project+"/hooks/:hook", glDeleteHook)
	on("POST "+project+"/hooks/:hook/test/:trigger", glTestHook)
	on("GET "+project+"/hooks/:hook/events", glHookEvents)
	on("POST "+project+"/hooks/:hook/events/:event/resend", glResendHook)
	return table
}
