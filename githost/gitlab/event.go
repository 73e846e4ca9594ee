package gitlab

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

// payload holds what is used of every event; GitLab sends far more, and not always of the documented type. What the event is about is
// decoded by its kind, because one name means different things: a merge request's source is a project, a pipeline's a word.
type payload struct {
	User         *payloadUser               `json:"user"`
	Project      *payloadProject            `json:"project"`
	About        json.RawMessage            `json:"object_attributes"`
	MergeRequest *payloadMR                 `json:"merge_request"`
	Changes      map[string]json.RawMessage `json:"changes"`
	Builds       []json.RawMessage          `json:"builds"`
	Ref          string                     `json:"ref"`
}

type payloadUser struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

type payloadProject struct {
	ID                int64  `json:"id"`
	PathWithNamespace string `json:"path_with_namespace"`
	DefaultBranch     string `json:"default_branch"`
}

type payloadMR struct {
	IID             int   `json:"iid"`
	TargetProjectID int64 `json:"target_project_id"`
}

// aboutNote is what a Note Hook is about.
type aboutNote struct {
	ID           int64    `json:"id"`
	Action       string   `json:"action"`
	Note         string   `json:"note"`
	NoteableType string   `json:"noteable_type"`
	System       bool     `json:"system"`
	AuthorID     int64    `json:"author_id"`
	CreatedAt    hookTime `json:"created_at"`
	UpdatedAt    hookTime `json:"updated_at"`
	Internal     bool     `json:"internal"`
	Confidential bool     `json:"confidential"`
}

// aboutMR is what a Merge Request Hook is about.
type aboutMR struct {
	payloadMR
	Action string `json:"action"`
	OldRev string `json:"oldrev"`
}

// aboutPipeline is what a Pipeline Hook is about.
type aboutPipeline struct {
	SHA    string `json:"sha"`
	Status string `json:"status"`
	Source string `json:"source"`
}

// hookTime is a time in one of the forms GitLab's payloads use; zero when it is in none of them.
type hookTime struct{ time.Time }

// UnmarshalJSON never fails: one odd time must not cost a whole event.
func (t *hookTime) UnmarshalJSON(b []byte) error {
	var s string
	_ = json.Unmarshal(b, &s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05.999999999 MST"} {
		if at, err := time.Parse(layout, s); err == nil {
			t.Time = at.UTC()
			return nil
		}
	}
	return nil
}

// mergeRequestActions are those after which a merge request is to be read again. Of approvals there are two kinds: approved and unapproved
// when its rules become satisfied or no longer are, approval and unapproval for a vote that does neither. That pushes took approvals
// away comes as one of them too, some seconds after the push.
var mergeRequestActions = map[string]bool{
	"open": true, "close": true, "reopen": true, "merge": true, "update": true,
	"approved": true, "unapproved": true, "approval": true, "unapproval": true,
}

// changesThatMatter are those of an update: a retarget, a draft toggle in both its forms, the verdict of a reviewer.
var changesThatMatter = []string{"target_branch", "draft", "title", "state_id", "reviewers", "blocking_discussions_resolved"}

// unfinishedPipelines are the states that decide nothing; "manual" is not among them: it waits for a person.
var unfinishedPipelines = map[string]bool{
	"created": true, "waiting_for_resource": true, "waiting_for_callback": true, "preparing": true, "pending": true, "running": true, "scheduled": true,
}

// Parse turns a stored delivery into events. Apart from comments everything in it is a hint, so what is missing in a payload makes
// it "not for us" rather than an error.
func (h *Host) Parse(event string, body []byte) (events []bot.Event, why string, err error) {
	if !wanted[event] {
		return nil, "event " + strconv.Quote(event) + " is not used", nil
	}
	var p *payload
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, "", fmt.Errorf("the payload of a %s is not valid: %w", event, err)
	}
	if p == nil {
		return nil, "", fmt.Errorf("the payload of a %s is empty", event)
	}
	if p.Project == nil || p.Project.ID <= 0 || p.Project.PathWithNamespace == "" {
		return nil, "", fmt.Errorf("the payload of a %s names no project", event)
	}
	hint := bot.Event{Repository: bot.RepositoryRef{
		Host: h.config.Name, ExternalID: p.Project.ID, Path: p.Project.PathWithNamespace, DefaultBranch: p.Project.DefaultBranch,
	}}
	if event == pushHook {
		branch, ok := strings.CutPrefix(p.Ref, "refs/heads/")
		if !ok || branch == "" {
			return nil, "not a branch", nil
		}
		hint.Kind, hint.Branch = bot.EventBranch, branch
		return []bot.Event{hint}, "", nil
	}
	switch event {
	case noteHook:
		return h.noteEvent(hint, p)
	case mergeRequestHook:
		return mergeRequestEvent(hint, p)
	}
	return h.pipelineEvents(hint, p)
}

// about decodes what an event is about.
func about[T any](event string, p *payload) (T, error) {
	var v T
	err := errors.New("it is missing")
	if len(p.About) > 0 && string(p.About) != "null" {
		err = json.Unmarshal(p.About, &v)
	}
	if err != nil {
		return v, fmt.Errorf("what the payload of a %s is about is not valid: %w", event, err)
	}
	return v, nil
}

func (h *Host) noteEvent(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	note, err := about[aboutNote](noteHook, p)
	switch {
	case err != nil:
		return nil, "", err
	case note.NoteableType != "MergeRequest":
		return nil, "a note on something else than a merge request", nil
	case note.Action != "" && note.Action != "create": // before 16.11 there is no action: then it is a new one
		return nil, ignoredAction(note.Action), nil
	case note.System:
		return nil, "a note by GitLab itself", nil
	case note.Internal || note.Confidential:
		return nil, "an internal note: the bot would answer it where everybody reads", nil
	case note.ID <= 0 || p.MergeRequest == nil || p.MergeRequest.IID <= 0:
		return nil, "", errors.New("the payload of a Note Hook has no note or no merge request")
	case p.MergeRequest.elsewhere(p.Project.ID):
		return nil, "a merge request of another project", nil
	case p.User == nil || p.User.Username == "":
		return nil, "the author is gone", nil
	}
	author := h.actor(p.User.ID, p.User.Username)
	if author.ID == 0 {
		author = h.actor(note.AuthorID, p.User.Username)
	}
	if why := h.unheard(author); why != "" {
		return nil, why, nil
	}
	at := note.CreatedAt
	if at.IsZero() {
		at = note.UpdatedAt
	}
	if at.IsZero() {
		return nil, "", errors.New("the payload of a Note Hook does not say when it was written")
	}
	hint.Kind, hint.Number = bot.EventComment, p.MergeRequest.IID
	hint.Comment = &bot.Comment{
		Kind:      bot.CommentIssue,
		ID:        note.ID,
		Number:    p.MergeRequest.IID,
		Author:    author,
		Body:      note.Note,
		CreatedAt: at.Truncate(time.Second),
	}
	return []bot.Event{hint}, "", nil
}

func mergeRequestEvent(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	mr, err := about[aboutMR](mergeRequestHook, p)
	if err != nil {
		return nil, "", err
	}
	if !mergeRequestActions[mr.Action] {
		return nil, ignoredAction(mr.Action), nil
	}
	if mr.IID <= 0 {
		return nil, "", errors.New("the payload of a Merge Request Hook has no number")
	}
	if mr.elsewhere(p.Project.ID) {
		return nil, "a merge request of another project", nil
	}
	// An update is of labels and assignees more often than not; oldrev is there only after a push.
	if mr.Action == "update" && mr.OldRev == "" && !p.changed(changesThatMatter) {
		return nil, "nothing that matters was updated", nil
	}
	hint.Kind, hint.Number = bot.EventMergeRequest, mr.IID
	return []bot.Event{hint}, "", nil
}

// pipelineEvents hints at the pipeline's commit, and at its merge request: a pipeline of merged results has a commit nobody asks for.
func (h *Host) pipelineEvents(hint bot.Event, p *payload) ([]bot.Event, string, error) {
	pipeline, err := about[aboutPipeline](pipelineHook, p)
	if err != nil {
		return nil, "", err
	}
	if !isCommitID(pipeline.SHA) {
		return nil, "", errors.New("the payload of a Pipeline Hook names no commit")
	}
	// A pipeline that only holds statuses is of whoever wrote the first one; statuses are not among its builds.
	if pipeline.Source == "external" && len(p.Builds) == 0 && p.User != nil && h.isOurself(p.User.ID) {
		return nil, "our own status", nil
	}
	if unfinishedPipelines[pipeline.Status] {
		return nil, "the pipeline is " + pipeline.Status, nil
	}
	checks := hint
	checks.Kind, checks.SHA = bot.EventChecks, pipeline.SHA
	events := []bot.Event{checks}
	if p.MergeRequest != nil && p.MergeRequest.IID > 0 && !p.MergeRequest.elsewhere(p.Project.ID) {
		hint.Kind, hint.Number = bot.EventMergeRequest, p.MergeRequest.IID
		events = append(events, hint)
	}
	return events, "", nil
}

// elsewhere reports whether a merge request is known to be into another project.
func (mr payloadMR) elsewhere(project int64) bool {
	return mr.TargetProjectID != 0 && mr.TargetProjectID != project
}

func (p *payload) changed(names []string) bool {
	for _, name := range names {
		if _, ok := p.Changes[name]; ok {
			return true
		}
	}
	return false
}

// unheard says why nobody listens to what author writes; empty: it is listened to.
func (h *Host) unheard(author bot.Actor) string {
	switch {
	case author.ID <= 0 || author.Login == "":
		return "the author is gone"
	case h.isOwn(author.ID):
		return "written by ourselves"
	case author.Bot:
		return "written by a bot"
	}
	// With a person's token our own words carry no sign of it.
	if h.isOurself(author.ID) {
		return "written by ourselves"
	}
	return ""
}

// isOurself is isOwn for a reader of payloads, who asks who we are when it is not known yet. When the host does not say, nobody is.
func (h *Host) isOurself(id int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := h.ownID(ctx); err != nil {
		h.log.Warn("who did something cannot be compared with the bot", "error", err)
	}
	return h.isOwn(id)
}

func ignoredAction(action string) string { return "action " + strconv.Quote(action) + " is not used" }

// isCommitID accepts full SHA-1 and SHA-256 object ids.
func isCommitID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
