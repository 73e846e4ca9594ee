package fakehost

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Events a hook may want, by the parameter that says so.
const (
	hookPush             = "push_events"
	hookNote             = "note_events"
	hookConfidentialNote = "confidential_note_events"
	hookMR               = "merge_requests_events"
	hookPipeline         = "pipeline_events"
	hookIssue            = "issues_events"
)

var hookEvents = []string{
	hookPush, hookNote, hookConfidentialNote, hookMR, hookPipeline, hookIssue, "confidential_issues_events", "tag_push_events", "job_events",
	"wiki_page_events", "deployment_events", "releases_events", "emoji_events", "milestone_events", "feature_flag_events",
	"resource_access_token_events", "repository_update_events",
}

// gitlabHook is a project's webhook.
type gitlabHook struct {
	ID          int64
	own         bool // the one Options describe: its address and secret are theirs
	URL         string
	Name        string
	Description string
	Token       string
	Signing     string
	TLS         bool
	Filter      string
	Events      map[string]bool
	Created     time.Time

	failures int // in a row
	until    time.Time
}

const (
	hookPatience = 4  // failures that stop a hook for a while
	hookLimit    = 40 // failures that stop it until a test succeeds
)

// alert is the hook's alert_status.
func (g *gitlab) alert(k *gitlabHook) string {
	switch {
	case !g.set.AutoDisable:
		return "executable"
	case k.failures >= hookLimit:
		return "disabled"
	case g.h.now().Before(k.until):
		return "temporarily_disabled"
	}
	return "executable"
}

// judge keeps count of a hook's failures in a row: the fourth stops it for a
// minute, and each after that for twice as long, up to a day.
func (g *gitlab) judge(k *gitlabHook, a Attempt) {
	if a.Error == "" {
		k.failures, k.until = 0, time.Time{}
		return
	}
	if k.failures++; k.failures >= hookPatience {
		wait := time.Minute << min(k.failures-hookPatience, 20)
		k.until = g.h.now().Add(min(wait, 24*time.Hour))
	}
}

func (g *gitlab) urlOf(k *gitlabHook) string {
	if k.own {
		return g.h.opt.WebhookURL
	}
	return k.URL
}

// wants tells whether a hook is sent an event of a kind.
func (k *gitlabHook) wants(r *repository, kind string) bool {
	return k.Events[kind] && (!k.own || r.installed)
}

// address is where a delivery goes and with which headers.
func (g *gitlab) address(d *delivery) (string, http.Header) {
	k := d.hook
	hd := http.Header{}
	hd.Set("Content-Type", "application/json")
	hd.Set("User-Agent", "GitLab/"+cmp.Or(g.set.Version, "18.0.0-ee"))
	hd.Set("X-Gitlab-Event", d.Event)
	hd.Set("X-Gitlab-Instance", g.h.opt.BaseURL)
	hd.Set("X-Gitlab-Webhook-UUID", guid(g.h.nextID())) // a new one for every send, whatever its name says
	hd.Set("X-Gitlab-Event-UUID", d.eventID)
	hd.Set("Idempotency-Key", d.GUID)
	token, signing := k.Token, k.Signing
	if k.own {
		token, signing = g.h.opt.WebhookSecret, g.set.SigningToken
	}
	if token != "" {
		hd.Set("X-Gitlab-Token", token)
	}
	if signing != "" {
		at := strconv.FormatInt(g.h.now().Unix(), 10)
		hd.Set("webhook-id", d.GUID)
		hd.Set("webhook-timestamp", at)
		hd.Set("webhook-signature", signHook(signing, d.GUID, at, d.Payload))
	}
	return g.urlOf(k), hd
}

// signHook signs as Standard Webhooks does; a token that is no base64 signs with
// nothing, and so for nobody.
func signHook(token, id, at string, body []byte) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (c *glCall) hook(k *gitlabHook) object {
	until := any(nil)
	if c.gl.alert(k) == "temporarily_disabled" {
		until = glTime(k.until)
	}
	signing := k.Signing
	if k.own {
		signing = c.gl.set.SigningToken
	}
	o := object{
		"id": k.ID, "url": c.gl.urlOf(k), "name": orNull(k.Name), "description": orNull(k.Description), "created_at": glTime(k.Created), "project_id": c.repo.ID,
		"enable_ssl_verification": k.TLS, "alert_status": c.gl.alert(k), "disabled_until": until, "url_variables": []any{}, "custom_headers": []any{},
		"push_events_branch_filter": k.Filter, "branch_filter_strategy": "wildcard", "custom_webhook_template": nil, "signing_token_present": signing != "",
	}
	for _, name := range hookEvents {
		o[name] = k.Events[name]
	}
	return o
}

// hooks lists the project's hooks for its Maintainers; the one of the options is
// among them when it has an address.
func (c *glCall) hooks() ([]*gitlabHook, error) {
	if err := c.must(RoleMaintain); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(c.repo.gl.hooks), func(k *gitlabHook) bool { return k.own && (c.gl.urlOf(k) == "" || !c.repo.installed) }), nil
}

func glListHooks(c *glCall) (int, any, error) {
	all, err := c.hooks()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(glPage(c, all), c.hook), nil
}

func (c *glCall) findHook() (*gitlabHook, error) {
	all, err := c.hooks()
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.ID == c.number("hook") {
			return k, nil
		}
	}
	return nil, errGLNotFound
}

func glGetHook(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.hook(k), nil
}

func glCreateHook(c *glCall) (int, any, error) {
	if err := cmp.Or(c.must(RoleMaintain), c.need("url")); err != nil {
		return 0, nil, err
	}
	k := &gitlabHook{ID: c.h.nextID(), TLS: true, Events: map[string]bool{hookPush: true}, Created: c.h.now()}
	if err := c.describe(k); err != nil {
		return 0, nil, err
	}
	c.repo.gl.hooks = append(c.repo.gl.hooks, k)
	return http.StatusCreated, c.hook(k), nil
}

func glEditHook(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	if k.own { // from now on it is like any other
		k.own, k.URL, k.Token, k.Signing = false, c.h.opt.WebhookURL, c.h.opt.WebhookSecret, c.gl.set.SigningToken
	}
	if err := c.describe(k); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.hook(k), nil
}

// describe sets what the parameters say of a hook; secrets are never read back.
func (c *glCall) describe(k *gitlabHook) error {
	if c.has("url") {
		if u := c.str("url"); !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			return glRefuse(422, "Invalid url given")
		}
		k.URL = c.str("url")
	}
	for name, field := range map[string]*string{
		"name": &k.Name, "description": &k.Description, "token": &k.Token, "push_events_branch_filter": &k.Filter,
	} {
		if c.has(name) {
			*field = c.str(name)
		}
	}
	if c.has("signing_token") {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(c.str("signing_token"), "whsec_"))
		if err != nil || len(key) != 32 || !strings.HasPrefix(c.str("signing_token"), "whsec_") {
			return glRefuse(422, "Signing token is invalid")
		}
		k.Signing = c.str("signing_token")
	}
	if c.has("enable_ssl_verification") {
		k.TLS = c.yes("enable_ssl_verification")
	}
	for _, name := range hookEvents {
		if c.has(name) {
			k.Events[name] = c.yes(name)
		}
	}
	return nil
}

func glDeleteHook(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	c.repo.gl.hooks = slices.DeleteFunc(c.repo.gl.hooks, func(x *gitlabHook) bool { return x == k })
	return http.StatusNoContent, nil, nil
}

// glTestHook sends a hook a push that did not happen. It runs even when the hook
// was stopped, and a success starts it again.
func glTestHook(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	if c.vars["trigger"] != hookPush {
		return 0, nil, &glError{status: 400, message: "trigger does not have a valid value", field: "error"}
	}
	tip := c.repo.branches[c.repo.DefaultBranch]
	e := event{kind: onPush, repo: c.repo, actor: c.who, ref: "refs/heads/" + c.repo.DefaultBranch, before: tip, after: tip}
	_, name, payload := c.gl.payload(e)
	d := c.h.record(e, name, payload)
	d.hook, d.eventID, d.test = k, guid(c.h.nextID()), true
	c.h.queue.add(func() { c.h.send(d) })
	return http.StatusCreated, object{"message": "201 Created"}, nil
}

func (c *glCall) sent(k *gitlabHook) []*delivery {
	all := slices.DeleteFunc(slices.Clone(c.h.deliveries), func(d *delivery) bool { return d.hook != k || len(d.Attempts) == 0 })
	slices.Reverse(all)
	return all
}

func glHookEvents(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, list(glPage(c, c.sent(k)), func(d *delivery) object {
		status := "200"
		if d.Attempts[len(d.Attempts)-1].Error != "" {
			status = "500"
		}
		return object{
			"id": d.ID, "url": c.gl.urlOf(k), "trigger": strings.ToLower(strings.ReplaceAll(d.Event, " ", "_")) + "s", "response_status": status,
			"execution_duration": 0.01, "request_headers": object{"Idempotency-Key": d.GUID, "X-Gitlab-Event": d.Event}, "request_data": object{},
			"response_headers": object{}, "response_body": "",
		}
	}), nil
}

func glResendHook(c *glCall) (int, any, error) {
	k, err := c.findHook()
	if err != nil {
		return 0, nil, err
	}
	for _, d := range c.sent(k) {
		if d.ID == c.number("event") {
			c.h.queue.add(func() { c.h.send(d) })
			return http.StatusCreated, object{"response_status": 200}, nil
		}
	}
	return 0, nil, errGLNotFound
}
