package fakehost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Branch rules bind pushes too, whether they come over HTTP or by path. git
// asks an update hook, which reads what the world last wrote for it:
//
//	rule REF KINDS BYPASS   what REF demands: queue, review, checks, linear
//	ok REF SHA              a commit that has REF's required checks
//
// A push by path has no name and counts as the bot's.
const updateHook = `#!/bin/sh
rules=fakehost-rules
[ -f "$rules" ] || exit 0
who=${REMOTE_USER:-%s}
refuse() {
	echo "error: GH006: Protected branch update failed for $1." >&2
	echo "error: $2" >&2
	exit 1
}
while read -r kind ref kinds bypass; do
	[ "$kind $ref" = "rule $1" ] || continue
	case ",$bypass," in *",$who,"*) exit 0 ;; esac
	case ",$kinds," in *,queue,*) refuse "$1" "Changes must be made through the merge queue" ;; esac
	case ",$kinds," in *,review,*) refuse "$1" "Changes must be made through a pull request." ;; esac
	case ",$kinds," in *,checks,*) grep -qxF "ok $1 $3" "$rules" || refuse "$1" "Required status checks are expected." ;; esac
	case ",$kinds," in *,linear,*) [ -z "$(git rev-list --merges "$3" "^$2")" ] || refuse "$1" "This branch must not contain merge commits." ;; esac
done <"$rules"
`

func (h *Host) writeHook(path string) error {
	hook := filepath.Join(path, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		return err
	}
	return os.WriteFile(hook, fmt.Appendf(nil, updateHook, "'"+h.opt.BotLogin+"'"), 0o755)
}

// protect tells the hook what the rules are and which commits satisfy them.
func (h *Host) protect(r *repository) error {
	file := filepath.Join(r.path, "fakehost-rules")
	if len(r.rules) == 0 {
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
	// Renamed into place: a hook reads the old rules or the new, never a part.
	if err := os.WriteFile(file+".new", []byte(text.String()), 0o644); err != nil {
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
