package fakehost

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

func getRepo(c *call) (int, any, error) {
	return http.StatusOK, c.gh.fullRepo(c.repo, c.who), nil
}

func getRepoByID(c *call) (int, any, error) {
	id := c.number("id")
	for _, r := range c.h.repos {
		if r.ID == id {
			if err := c.find(r); err != nil {
				return 0, nil, err
			}
			return getRepo(c)
		}
	}
	return 0, nil, errNotFound
}

func getBranch(c *call) (int, any, error) {
	rest := c.req.PathValue("rest")
	if b, ok := strings.CutSuffix(rest, "/protection"); ok && c.repo.branches[b] != "" {
		return c.protection(b)
	}
	sha := c.repo.branches[rest]
	if sha == "" {
		return 0, nil, &apiError{status: 404, message: "Branch not found"}
	}
	k, err := c.h.commitAt(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	rules, protected := c.repo.rules[rest]
	level := "off"
	if len(rules.RequiredChecks) > 0 {
		level = "everyone"
	}
	url := c.gh.api("/repos/%s/branches/%s", c.repo.fullName(), rest)
	return http.StatusOK, object{
		"name": rest, "commit": c.gh.gitCommit(c.repo, k), "protected": protected, "protection_url": url + "/protection",
		"_links": object{"self": url, "html": c.gh.web("/%s/tree/%s", c.repo.fullName(), rest)},
		"protection": object{"enabled": protected, "required_status_checks": object{
			"enforcement_level": level, "contexts": orEmpty(rules.RequiredChecks), "checks": checksOf(rules.RequiredChecks),
		}},
	}, nil
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func checksOf(names []string) []object {
	return list(names, func(n string) object { return object{"context": n, "app_id": nil} })
}

func getRef(c *call) (int, any, error) {
	ref := c.req.PathValue("ref")
	sha := ""
	if b, ok := strings.CutPrefix(ref, "heads/"); ok {
		sha = c.repo.branches[b]
	} else if n, ok := strings.CutPrefix(ref, "pull/"); ok {
		number, rest, _ := strings.Cut(n, "/")
		if i, err := strconv.Atoi(number); err == nil && rest == "head" && c.repo.threads[i] != nil && c.repo.threads[i].mr != nil {
			sha = c.repo.threads[i].mr.Head
		}
	}
	if sha == "" {
		return 0, nil, errNotFound
	}
	return http.StatusOK, object{
		"ref": "refs/" + ref, "node_id": nodeID("Ref:"+ref, c.repo.ID), "url": c.gh.api("/repos/%s/git/refs/%s", c.repo.fullName(), ref),
		"object": object{"type": "commit", "sha": sha, "url": c.gh.api("/repos/%s/git/commits/%s", c.repo.fullName(), sha)},
	}, nil
}

func deleteRef(c *call) (int, any, error) {
	if err := c.need(RoleWrite); err != nil {
		return 0, nil, err
	}
	b, ok := strings.CutPrefix(c.req.PathValue("ref"), "heads/")
	if !ok || c.repo.branches[b] == "" {
		return 0, nil, &apiError{status: 422, message: "Reference does not exist"}
	}
	if b == c.repo.DefaultBranch {
		return 0, nil, &apiError{status: 422, message: "Cannot delete the default branch"}
	}
	return http.StatusNoContent, nil, c.h.moveBranch(c.repo, b, "", c.who.user)
}

// getContents answers a file with its content, or a folder's entries.
func getContents(c *call) (int, any, error) {
	p := strings.Trim(c.req.PathValue("path"), "/")
	ref := c.query("ref")
	if ref == "" {
		ref = c.repo.DefaultBranch
	}
	sha := c.h.resolve(c.repo, ref)
	if sha == "" {
		return 0, nil, &apiError{status: 404, message: "No commit found for the ref " + ref}
	}
	if strings.ContainsAny(p, "\n\x00") {
		return 0, nil, errNotFound
	}
	out, err := c.h.git(c.repo.path, []byte(sha+":"+p+"\n"), "cat-file", "--batch")
	if err != nil {
		return 0, nil, err
	}
	head, content, _ := bytes.Cut(out, []byte("\n"))
	f := strings.Fields(string(head))
	switch {
	case len(f) == 3 && f[1] == "blob":
		content = content[:len(content)-1]
		if strings.Contains(c.req.Header.Get("Accept"), "raw") {
			c.rawBody = slices.Clip(content)
			c.header.Set("Content-Type", "application/vnd.github.raw; charset=utf-8")
			return http.StatusOK, nil, nil
		}
		o := c.entry(ref, p, "file", f[0], len(content))
		o["encoding"], o["content"] = "base64", base64.StdEncoding.EncodeToString(content)
		return http.StatusOK, o, nil
	case len(f) == 3 && f[1] == "tree":
		return c.folder(ref, sha, p)
	}
	return 0, nil, errNotFound
}

func (c *call) folder(ref, sha, p string) (int, any, error) {
	out, err := c.h.git(c.repo.path, nil, "ls-tree", "-z", "-l", sha+":"+p)
	if err != nil {
		return 0, nil, err
	}
	entries := []object{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		kind, size := "file", 0
		if f[1] == "tree" {
			kind = "dir"
		} else if size, err = strconv.Atoi(f[3]); err != nil {
			return 0, nil, err
		}
		entries = append(entries, c.entry(ref, path.Join(p, name), kind, f[2], size))
	}
	return http.StatusOK, entries, nil
}

func (c *call) entry(ref, p, kind, sha string, size int) object {
	api := c.gh.api("/repos/%s/contents/%s?ref=%s", c.repo.fullName(), p, ref)
	web := c.gh.web("/%s/blob/%s/%s", c.repo.fullName(), ref, p)
	blob := c.gh.api("/repos/%s/git/blobs/%s", c.repo.fullName(), sha)
	var download any
	if kind == "file" {
		download = c.gh.web("/%s/raw/%s/%s", c.repo.fullName(), ref, p)
	}
	return object{
		"type": kind, "size": size, "name": path.Base(p), "path": p, "sha": sha, "url": api, "html_url": web, "git_url": blob, "download_url": download,
		"_links": object{"self": api, "html": web, "git": blob},
	}
}

func compare(c *call) (int, any, error) {
	from, to, ok := strings.Cut(c.req.PathValue("range"), "...")
	base, head := c.h.resolve(c.repo, from), c.h.resolve(c.repo, to)
	if !ok || base == "" || head == "" {
		return 0, nil, errNotFound
	}
	ahead, err := c.h.between(c.repo, base, head)
	if err != nil {
		return 0, nil, err
	}
	behind, err := c.h.between(c.repo, head, base)
	if err != nil {
		return 0, nil, err
	}
	out, err := c.h.git(c.repo.path, nil, "merge-base", base, head)
	var ge *gitError
	if errors.As(err, &ge) && ge.code == 1 {
		return 0, nil, &apiError{status: 404, message: "No common ancestor between " + from + " and " + to + "."}
	} else if err != nil {
		return 0, nil, err
	}
	kept := map[string]object{}
	slices.Reverse(ahead)
	for _, sha := range append(slices.Clone(ahead), base, strings.TrimSpace(string(out))) {
		k, err := c.h.commitAt(c.repo, sha)
		if err != nil {
			return 0, nil, err
		}
		kept[sha] = c.gh.gitCommit(c.repo, k)
	}
	files, err := c.changed(base, head)
	if err != nil {
		return 0, nil, err
	}
	state := "identical"
	switch {
	case len(ahead) > 0 && len(behind) > 0:
		state = "diverged"
	case len(ahead) > 0:
		state = "ahead"
	case len(behind) > 0:
		state = "behind"
	}
	api, web := c.gh.api("/repos/%s/compare/%s...%s", c.repo.fullName(), from, to), c.gh.web("/%s/compare/%s...%s", c.repo.fullName(), from, to)
	return http.StatusOK, object{
		"url": api, "html_url": web, "permalink_url": web, "diff_url": web + ".diff", "patch_url": web + ".patch", "status": state,
		"ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead), "base_commit": kept[base],
		"merge_base_commit": kept[strings.TrimSpace(string(out))], "commits": list(page(c, ahead), func(s string) object { return kept[s] }), "files": files,
	}, nil
}

// getPermission answers the coarse permission and the exact role. A bot's
// login is not a collaborator and answers 404.
func getPermission(c *call) (int, any, error) {
	u := c.h.users[strings.ToLower(c.req.PathValue("login"))]
	if u == nil || u.Bot {
		return 0, nil, &apiError{status: 404, message: c.req.PathValue("login") + " is not a user"}
	}
	if c.who.user == nil {
		return 0, nil, errUnauthorized
	}
	if c.who.inst == nil {
		if err := c.need(RoleWrite); err != nil {
			return 0, nil, err
		}
	}
	role := c.h.role(c.repo, u)
	coarse := map[string]string{RoleMaintain: RoleWrite, RoleTriage: RoleRead}[role]
	if coarse == "" {
		coarse = role
	}
	who := c.gh.user(u).(object)
	who["permissions"], who["role_name"] = permissions(role), role
	return http.StatusOK, object{"permission": coarse, "role_name": role, "user": who}, nil
}
