package fakehost

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"slices"
	"strings"
)

func (c *glCall) branch(name string) (object, error) {
	k, err := c.h.commitAt(c.repo, c.repo.branches[name])
	if err != nil {
		return nil, err
	}
	_, protected := c.repo.gl.protected[name]
	return object{
		"name": name, "commit": c.gl.commit(c.repo, k), "merged": false, "protected": protected, "default": name == c.repo.DefaultBranch,
		"developers_can_push": false, "developers_can_merge": protected, "can_push": c.gl.level(c.repo, c.who) >= max(Developer, c.repo.gl.protected[name].Push),
		"web_url": c.gl.web("/%s/-/tree/%s", c.repo.fullName(), name),
	}, nil
}

func glListBranches(c *glCall) (int, any, error) {
	names := slices.DeleteFunc(sortedKeys(c.repo.branches), func(n string) bool {
		prefix, anchored := strings.CutPrefix(c.str("search"), "^")
		return anchored && !strings.HasPrefix(n, prefix) || !strings.Contains(n, prefix)
	})
	out := []object{}
	for _, name := range glPage(c, names) {
		o, err := c.branch(name)
		if err != nil {
			return 0, nil, err
		}
		out = append(out, o)
	}
	return http.StatusOK, out, nil
}

func glGetBranch(c *glCall) (int, any, error) {
	name := c.vars["branch"]
	if c.repo.branches[name] == "" {
		return 0, nil, glRefuse(404, "404 Branch Not Found")
	}
	o, err := c.branch(name)
	return http.StatusOK, o, err
}

func glDeleteBranch(c *glCall) (int, any, error) {
	name := c.vars["branch"]
	if err := c.must(RoleWrite); err != nil {
		return 0, nil, err
	}
	if c.repo.branches[name] == "" {
		return 0, nil, glRefuse(404, "404 Branch Not Found")
	}
	if _, ok := c.repo.gl.protected[name]; ok {
		return 0, nil, glRefuse(403, "403 Forbidden - You can't delete a protected branch")
	}
	return http.StatusNoContent, nil, c.h.moveBranch(c.repo, name, "", c.who)
}

func glListCommits(c *glCall) (int, any, error) {
	sha := c.h.resolve(c.repo, cmp.Or(c.str("ref_name"), c.repo.DefaultBranch))
	if sha == "" {
		return 0, nil, glRefuse(404, "404 Tree Not Found")
	}
	all, err := c.h.between(c.repo, "", sha)
	if err != nil {
		return 0, nil, err
	}
	return c.answerCommits(glPage(c, all))
}

func glGetCommit(c *glCall) (int, any, error) {
	sha := c.h.resolve(c.repo, c.vars["sha"])
	if sha == "" {
		return 0, nil, glRefuse(404, "404 Commit Not Found")
	}
	k, err := c.h.commitAt(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	o := c.gl.commit(c.repo, k)
	o["status"], o["project_id"], o["last_pipeline"] = nil, c.repo.ID, nil
	for _, p := range c.repo.gl.pipelines {
		if p.SHA == sha {
			o["last_pipeline"], o["status"] = c.gl.pipeline(c.repo, p), c.gl.statusOf(c.repo, p)
		}
	}
	return http.StatusOK, o, nil
}

// glCommitMRs lists the merge requests that brought a commit or would.
func glCommitMRs(c *glCall) (int, any, error) {
	var found []*mergeRequest
	for _, m := range c.repo.mrs() {
		shas, err := c.h.between(c.repo, m.BaseSHA, m.Head)
		if err != nil {
			return 0, nil, err
		}
		if slices.Contains(shas, c.vars["sha"]) {
			found = append(found, m)
		}
	}
	out := []object{}
	for _, m := range glPage(c, found) {
		status, err := c.gl.mergeStatus(c.repo, m)
		if err != nil {
			return 0, nil, err
		}
		out = append(out, c.gl.shortMR(c.repo, m, status))
	}
	return http.StatusOK, out, nil
}

func glCompare(c *glCall) (int, any, error) {
	if err := c.need("from", "to"); err != nil {
		return 0, nil, err
	}
	from, to := c.h.resolve(c.repo, c.str("from")), c.h.resolve(c.repo, c.str("to"))
	if from == "" || to == "" {
		return 0, nil, glRefuse(404, "404 Ref Not Found")
	}
	shas, err := c.h.between(c.repo, from, to)
	if err != nil {
		return 0, nil, err
	}
	slices.Reverse(shas)
	_, commits, err := c.answerCommits(shas)
	if err != nil {
		return 0, nil, err
	}
	span := from + "..." + to
	if c.yes("straight") {
		span = from + ".." + to
	}
	out, err := c.h.git(c.repo.path, nil, "diff", "--name-only", "--no-renames", "-z", span)
	if err != nil {
		return 0, nil, err
	}
	diffs := []object{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if name != "" {
			diffs = append(diffs, object{"old_path": name, "new_path": name, "a_mode": "100644", "b_mode": "100644", "new_file": false, "renamed_file": false, "deleted_file": false, "diff": ""})
		}
	}
	o := object{"commit": nil, "commits": commits, "diffs": diffs, "compare_timeout": false, "compare_same_ref": from == to, "web_url": c.gl.web("/%s/-/compare/%s", c.repo.fullName(), span)}
	if list := commits.([]object); len(list) > 0 {
		o["commit"] = list[len(list)-1]
	}
	return http.StatusOK, o, nil
}

func glMergeBase(c *glCall) (int, any, error) {
	refs, _ := c.params["refs"].([]string)
	if len(refs) < 2 {
		return 0, nil, &glError{status: 400, message: "refs is missing", field: "error"}
	}
	args := []string{"merge-base"}
	for _, ref := range refs {
		sha := c.h.resolve(c.repo, ref)
		if sha == "" {
			return 0, nil, glRefuse(400, "Could not find ref: "+ref)
		}
		args = append(args, sha)
	}
	out, err := c.h.git(c.repo.path, nil, args...)
	if err != nil {
		return 0, nil, glRefuse(404, "404 Merge Base Not Found")
	}
	k, err := c.h.commitAt(c.repo, strings.TrimSpace(string(out)))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gl.commit(c.repo, k), nil
}

// file reads the file of the path at ref.
func (c *glCall) file() (blob, commit string, content []byte, err error) {
	commit = c.h.resolve(c.repo, cmp.Or(c.str("ref"), c.repo.DefaultBranch))
	if commit == "" {
		return "", "", nil, glRefuse(404, "404 Commit Not Found")
	}
	name := c.vars["path"]
	if strings.ContainsAny(name, "\n\x00") {
		return "", "", nil, glRefuse(404, "404 File Not Found")
	}
	out, err := c.h.git(c.repo.path, []byte(commit+":"+name+"\n"), "cat-file", "--batch")
	if err != nil {
		return "", "", nil, err
	}
	head, content, _ := bytes.Cut(out, []byte("\n"))
	if f := strings.Fields(string(head)); len(f) == 3 && f[1] == "blob" {
		return f[0], commit, slices.Clip(content[:len(content)-1]), nil
	}
	return "", "", nil, glRefuse(404, "404 File Not Found")
}

func glGetFile(c *glCall) (int, any, error) {
	blob, commit, content, err := c.file()
	if err != nil {
		return 0, nil, err
	}
	sum := sha256.Sum256(content)
	c.header.Set("X-Gitlab-Blob-Id", blob)
	c.header.Set("X-Gitlab-Commit-Id", commit)
	return http.StatusOK, object{
		"file_name": path.Base(c.vars["path"]), "file_path": c.vars["path"], "size": len(content), "encoding": "base64", "content": base64.StdEncoding.EncodeToString(content),
		"content_sha256": hex.EncodeToString(sum[:]), "ref": cmp.Or(c.str("ref"), c.repo.DefaultBranch), "blob_id": blob, "commit_id": commit,
		"last_commit_id": commit, "execute_filemode": false,
	}, nil
}

func glGetRawFile(c *glCall) (int, any, error) {
	blob, commit, content, err := c.file()
	if err != nil {
		return 0, nil, err
	}
	c.text = content
	c.header.Set("Content-Type", "text/plain; charset=utf-8")
	c.header.Set("X-Gitlab-Blob-Id", blob)
	c.header.Set("X-Gitlab-Commit-Id", commit)
	return http.StatusOK, nil, nil
}
