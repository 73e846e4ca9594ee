package fakehost

import (
	_ "embed" // the hook
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Branch rules bind pushes too, whether they come over HTTP or by path. git
// asks an update hook, which reads what the world last wrote for it:
//
//	rule REF KINDS BYPASS   what REF demands: queue, review, checks, linear; on a
//	                        GitLab keep (no force, for anybody) and level
//	ok REF SHA              a commit that has REF's required checks
//	push KIND VALUE         what every push is held to: workflows, path GLOB, size BYTES
//
// A push by path has no name and counts as the bot's.
//
//go:embed update-hook.sh
var updateHook string

func (h *Host) writeHook(path string) error {
	hook := filepath.Join(path, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		return err
	}
	return os.WriteFile(hook, []byte(strings.ReplaceAll(updateHook, "@BOT@", "'"+h.opt.BotLogin+"'")), 0o755)
}

// protect tells the hook what the rules are and which commits satisfy them.
func (h *Host) protect(r *repository) error {
	file := filepath.Join(r.path, "fakehost-rules")
	if h.gl != nil {
		return writeRules(r, file, h.pushRules(r)+h.gl.protection(r))
	}
	push := h.pushRules(r)
	if len(r.rules) == 0 && push == "" {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("lifting the rules of %s: %w", r.fullName(), err)
		}
		return nil
	}
	judged := map[string]bool{}
	for _, s := range r.statuses {
		judged[s.SHA] = true
	}
	for _, c := range r.checks {
		judged[c.SHA] = true
	}
	var text strings.Builder
	text.WriteString(push)
	for _, branch := range sortedKeys(r.rules) {
		x := r.rules[branch]
		var kinds []string
		if x.MergeQueue {
			kinds = append(kinds, "queue")
		}
		if x.RequiredApprovals > 0 {
			kinds = append(kinds, "review")
		}
		if len(x.RequiredChecks) > 0 {
			kinds = append(kinds, "checks")
		}
		if x.Linear {
			kinds = append(kinds, "linear")
		}
		fmt.Fprintf(&text, "rule refs/heads/%s %s %s\n", branch, strings.Join(append(kinds, "-"), ","), strings.Join(x.Bypass, ","))
		for _, sha := range sortedKeys(judged) {
			if h.missingCheck(r, sha, x) == nil {
				fmt.Fprintf(&text, "ok refs/heads/%s %s\n", branch, sha)
			}
		}
	}
	return writeRules(r, file, text.String())
}

func writeRules(r *repository, file, text string) error {
	// Renamed into place: a hook reads the old rules or the new, never a part.
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("protecting %s: %w", r.fullName(), err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("protecting %s: %w", r.fullName(), err)
	}
	return nil
}

// missingCheck answers the first required check that a commit lacks.
func (h *Host) missingCheck(r *repository, sha string, rules Rules) error {
	for _, name := range rules.RequiredChecks {
		switch h.verdict(r, sha, name) {
		case "success", "neutral", "skipped":
		case "":
			return refuse(refusedNotMergeable, "Required status check %q is expected.", name)
		case "pending":
			return refuse(refusedNotMergeable, "Required status check %q is in progress.", name)
		default:
			return refuse(refusedNotMergeable, "Required status check %q is failing.", name)
		}
	}
	return nil
}

// PushRules are what a repository holds every push to, whoever pushes.
type PushRules struct {
	// Paths are globs of files that no push may change; a star stands for any text.
	Paths []string `json:"paths,omitempty"`
	// MaxFileSize is the most a file may have, in bytes; 0: any.
	MaxFileSize int `json:"max_file_size,omitempty"`
}

// SetPushRules replaces the push rules of a repository; the zero value removes them.
func (h *Host) SetPushRules(repo string, rules PushRules) error {
	return h.with(repo, func(r *repository) error {
		r.push = rules
		return h.protect(r)
	})
}

// pushRules are the lines of the hook's file that bind every push. Without the permission, an App may not touch workflows.
func (h *Host) pushRules(r *repository) string {
	var text strings.Builder
	if h.gl == nil && h.opt.AppPermissions["workflows"] != "write" {
		text.WriteString("push workflows -\n")
	}
	for _, glob := range r.push.Paths {
		fmt.Fprintf(&text, "push path %s\n", glob)
	}
	if r.push.MaxFileSize > 0 {
		fmt.Fprintf(&text, "push size %d\n", r.push.MaxFileSize)
	}
	return text.String()
}
