package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// payload holds what is used of every event; GitHub sends far more. Fields are pointers where their absence means something.
type payload struct {
	Action       string             `json:"action"`
	Number       int                `json:"number"`
	Repository   *payloadRepository `json:"repository"`
	Installation *struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Sender *payloadUser `json:"sender"`

	Issue *struct {
		Number int `json:"number"`
	} `json:"issue"`
	Comment     *payloadComment `json:"comment"`
	PullRequest *struct {
		Number int `json:"number"`
	} `json:"pull_request"`
	Review  *payloadReview `json:"review"`
	Changes struct {
		Base  json.RawMessage `json:"base"`
		Title json.RawMessage `json:"title"`
	} `json:"changes"`

	CheckSuite  *payloadCheck `json:"check_suite"`
	CheckRun    *payloadCheck `json:"check_run"`
	WorkflowRun *payloadCheck `json:"workflow_run"`
	SHA         string        `json:"sha"`
	Context     string        `json:"context"`

	Ref string `json:"ref"`

	Repositories        []payloadRepository `json:"repositories"`
	RepositoriesAdded   []payloadRepository `json:"repositories_added"`
	RepositoriesRemoved []payloadRepository `json:"repositories_removed"`
}

type payloadRepository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
}

type payloadUser struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"`
}

type payloadComment struct {
	ID        int64        `json:"id"`
	Body      string       `json:"body"`
	User      *payloadUser `json:"user"`
	CreatedAt time.Time    `json:"created_at"`
}

type payloadReview struct {
	ID          int64        `json:"id"`
	Body        string       `json:"body"`
	User        *payloadUser `json:"user"`
	SubmittedAt time.Time    `json:"submitted_at"`
}

type payloadCheck struct {
	HeadSHA string `json:"head_sha"`
	App     *struct {
		ID int64 `json:"id"`
	} `json:"app"`
}

// pullRequestActions are those after which a pull request is to be read again.
var pullRequestActions = map[string]bool{
	"opened": true, "synchronize": true, "reopened": true, "closed": true, "edited": true,
	"converted_to_draft": true, "ready_for_review": true,
	"enqueued": true, "dequeued": true, "auto_merge_enabled": true, "auto_merge_disabled": true,
}

// repositoryActions are those after which a repository is to be read again.
var repositoryActions = map[string]bool{
	"renamed": true, "transferred": true, "archived": true, "unarchived": true, "deleted": true,
	"privatized": true, "publicized": true, "edited": true,
}

// Parse turns a stored delivery into events. Apart from comments everything in it is a hint, so what is missing in a payload makes
// it "not for us" rather than an error.
func (h *Host) Parse(event string, body []byte) (events []bot.Event, why string, err error) {
	if !wanted[event] {
		return nil, "event " + strconv.Quote(event) + " is not used", nil
	}
	var p *payload
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, "", fmt.Errorf("the payload of %s is not valid: %w", event, err)
	}
	if p == nil {
		return nil, "", fmt.Errorf("the payload of %s is empty", event)
	}
	switch event {
	case "installation", "installation_repositories", "installation_target":
		return h.installationEvent(event, p)
	}
	if p.Repository == nil || p.Repository.ID == 0 || p.Repository.FullName == "" {
		return nil, "", fmt.Errorf("the payload of %s names no repository", event)
	}
	hint := bot.Event{Repository: h.ref(*p.Repository, p)}
	switch event {
	case "issue_comment":
		return h.commentEvent(hint, p)
	case "pull_request_review":
		return h.reviewEvents(hint, p)
	case "pull_request":
		return pullRequestEvent(hint, p)
	case "push":
		branch, ok := strings.CutPrefix(p.Ref, "refs/heads/")
		if !ok || branch == "" {
			return nil, "not a branch", nil
		}
		hint.Kind, hint.Branch = bot.EventBranch, branch
		return []bot.Event{hint}, "", nil
	case "repository":
		if !repositoryActions[p.Action] {
			return nil, ignoredAction(p.Action), nil
		}
		hint.Kind = bot.EventRepository
		return []bot.Event{hint}, "", nil
	}
	return h.checksEvent(event, hint, p)
}

func (h *Host) commentEvent(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	if p.Action != "created" {
		return nil, ignoredAction(p.Action), nil // an old comment edited into a command is none
	}
	if p.Issue == nil || p.Issue.Number <= 0 || p.Comment == nil || p.Comment.ID == 0 {
		return nil, "", errors.New("the payload of issue_comment has no issue or no comment")
	}
	if why := h.unheard(p.Comment.User); why != "" {
		return nil, why, nil
	}
	hint.Kind, hint.Number = bot.EventComment, p.Issue.Number
	hint.Comment = &bot.Comment{
		Kind:      bot.CommentIssue,
		ID:        p.Comment.ID,
		Number:    p.Issue.Number,
		Author:    p.Comment.User.actor(),
		Body:      p.Comment.Body,
		CreatedAt: p.Comment.CreatedAt.UTC(),
	}
	return []bot.Event{hint}, "", nil
}

func (h *Host) reviewEvents(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	if p.Action != "submitted" && p.Action != "dismissed" {
		return nil, ignoredAction(p.Action), nil
	}
	if p.PullRequest == nil || p.PullRequest.Number <= 0 || p.Review == nil {
		return nil, "", errors.New("the payload of pull_request_review has no pull request or no review")
	}
	hint.Kind, hint.Number = bot.EventMergeRequest, p.PullRequest.Number
	events := []bot.Event{hint}
	if p.Action == "submitted" && p.Review.ID != 0 && strings.TrimSpace(p.Review.Body) != "" && h.unheard(p.Review.User) == "" {
		spoken := hint
		spoken.Kind = bot.EventComment
		spoken.Comment = &bot.Comment{
			Kind:      bot.CommentReview,
			ID:        p.Review.ID,
			Number:    p.PullRequest.Number,
			Author:    p.Review.User.actor(),
			Body:      p.Review.Body,
			CreatedAt: p.Review.SubmittedAt.UTC(),
		}
		// What was said comes first: "/batch" in an approving review applies, then the approval admits.
		events = []bot.Event{spoken, hint}
	}
	return events, "", nil
}

func pullRequestEvent(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	if !pullRequestActions[p.Action] {
		return nil, ignoredAction(p.Action), nil
	}
	if p.Action == "edited" && p.Changes.Base == nil && p.Changes.Title == nil {
		return nil, "only the description was edited", nil
	}
	number := p.Number
	if number <= 0 && p.PullRequest != nil {
		number = p.PullRequest.Number
	}
	if number <= 0 {
		return nil, "", errors.New("the payload of pull_request has no number")
	}
	hint.Kind, hint.Number = bot.EventMergeRequest, number
	return []bot.Event{hint}, "", nil
}

// checksEvent correlates by commit only: for heads of forks the payload lists no pull request.
func (h *Host) checksEvent(event string, hint bot.Event, p *payload) ([]bot.Event, string, error) {
	hint.Kind = bot.EventChecks
	if event == "status" {
		if p.Context == h.config.StatusContext {
			return nil, "our own status", nil
		}
		hint.SHA = p.SHA
	} else {
		if p.Action != "completed" {
			return nil, ignoredAction(p.Action), nil
		}
		check := p.CheckSuite
		switch event {
		case "check_run":
			check = p.CheckRun
		case "workflow_run":
			check = p.WorkflowRun
		}
		if check == nil {
			return nil, "", fmt.Errorf("the payload of %s has no %s", event, event)
		}
		if check.App != nil && check.App.ID != 0 && check.App.ID == h.config.AppID {
			return nil, "our own check", nil
		}
		hint.SHA = check.HeadSHA
	}
	if !isCommitID(hint.SHA) {
		return nil, "", fmt.Errorf("the payload of %s names no commit", event)
	}
	return []bot.Event{hint}, "", nil
}

func (h *Host) installationEvent(event string, p *payload) ([]bot.Event, string, error) {
	if p.Installation == nil || p.Installation.ID == 0 {
		return nil, "", fmt.Errorf("the payload of %s names no installation", event)
	}
	change := &bot.InstallationChange{Host: h.config.Name, Installation: p.Installation.ID}
	refs := func(list []payloadRepository) (out []bot.RepositoryRef) {
		for _, r := range list {
			if r.ID != 0 && r.FullName != "" {
				out = append(out, h.ref(r, p))
			}
		}
		return out
	}
	switch event + " " + p.Action {
	case "installation created", "installation unsuspend":
		// The payload of a large installation does not list everything.
		change.Added, change.ReadAll = refs(p.Repositories), true
	case "installation deleted", "installation suspend":
		change.RemovedAll = true
		h.forget(p.Installation.ID)
	case "installation new_permissions_accepted", "installation_target renamed":
		change.ReadAll = true
		h.forget(p.Installation.ID)
	case "installation_repositories added", "installation_repositories removed":
		change.Added, change.Removed = refs(p.RepositoriesAdded), refs(p.RepositoriesRemoved)
	default:
		return nil, ignoredAction(p.Action), nil
	}
	return []bot.Event{{Kind: bot.EventInstallation, Installation: change}}, "", nil
}

// unheard says why nobody listens to what user writes; empty: it is listened to.
func (h *Host) unheard(user *payloadUser) string {
	switch {
	case user == nil || user.ID == 0 || user.Login == "":
		return "the author is gone"
	case isBot(user.Type, user.Login):
		return "written by a bot"
	}
	// With a person's token our own words carry no sign of it; an App's author is a bot and was dealt with.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.knowOurselves(ctx); err != nil {
		h.log.Warn("who wrote a comment cannot be compared with the bot", "error", err)
	}
	if h.isOwn(user.Login) {
		return "written by ourselves"
	}
	return ""
}

func (u *payloadUser) actor() bot.Actor {
	return bot.Actor{ID: u.ID, Login: u.Login, Bot: isBot(u.Type, u.Login)}
}

func (h *Host) ref(r payloadRepository, p *payload) bot.RepositoryRef {
	ref := bot.RepositoryRef{Host: h.config.Name, ExternalID: r.ID, Path: r.FullName, DefaultBranch: r.DefaultBranch}
	if p.Installation != nil {
		ref.Installation = p.Installation.ID
	}
	return ref
}

func ignoredAction(action string) string { return "action " + strconv.Quote(action) + " is not used" }

// isCommitID accepts full SHA-1 and SHA-256 object ids.
func isCommitID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
