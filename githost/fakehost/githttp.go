package fakehost

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// gitRequest splits /owner/name.git/service; an owner may have several parts.
func gitRequest(path string) (repo, service string, ok bool) {
	repo, service, ok = strings.Cut(strings.TrimPrefix(path, "/"), ".git/")
	switch service {
	case "info/refs", "git-upload-pack", "git-receive-pack":
		return strings.ToLower(repo), service, ok
	}
	return "", "", false
}

var gitExecPath = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	return strings.TrimSpace(string(out)), err
})

// serveGit answers smart HTTP by git http-backend. A push holds the world's
// lock, so that what it changed is told apart from everybody else's changes.
func (h *Host) serveGit(w http.ResponseWriter, req *http.Request, repo, service string) {
	push := service == "git-receive-pack" || req.URL.Query().Get("service") == "git-receive-pack"
	h.mu.Lock()
	r, who, err := h.gitAccess(req, repo, push)
	narrow := h.narrowed(req)
	if err != nil && err.status == http.StatusMovedPermanently {
		w.Header().Set("Location", h.opt.BaseURL+"/"+h.renamed[repo].fullName()+".git/"+service+"?"+req.URL.RawQuery)
	}
	h.mu.Unlock()
	if err != nil {
		if err.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="Git"`)
		}
		http.Error(w, err.message, err.status)
		return
	}
	exec, pathErr := gitExecPath()
	if pathErr != nil {
		http.Error(w, "git is not installed: "+pathErr.Error(), http.StatusInternalServerError)
		return
	}
	spooled, spoolErr := spool(req)
	if spoolErr != nil {
		http.Error(w, spoolErr.Error(), http.StatusInternalServerError)
		return
	}
	defer spooled.close()

	rel, relErr := filepath.Rel(h.opt.Dir, r.path)
	if relErr != nil {
		http.Error(w, relErr.Error(), http.StatusInternalServerError)
		return
	}
	in := req.Clone(req.Context())
	in.URL.Path = "/" + filepath.ToSlash(rel) + "/" + service
	in.Body, in.ContentLength, in.TransferEncoding = spooled.file, spooled.size, nil
	in.Header.Del("Authorization")
	backend := &cgi.Handler{
		Path:   filepath.Join(exec, "git-http-backend"),
		Root:   "/",
		Dir:    h.opt.Dir,
		Env:    append([]string{"GIT_PROJECT_ROOT=" + h.opt.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + who}, append(narrow, gitEnv...)...),
		Stderr: io.Discard,
	}
	if service != "git-receive-pack" {
		backend.ServeHTTP(w, in)
		return
	}
	// Answered only after the world has followed, as a client that reads the
	// API right after its push expects.
	answer := &recorder{header: w.Header()}
	h.mu.Lock()
	actor := h.users[strings.ToLower(who)]
	scanErr := h.scan(r, h.bot())
	backend.ServeHTTP(answer, in)
	scanErr = errors.Join(scanErr, h.scan(r, actor))
	h.mu.Unlock()
	if scanErr != nil {
		h.log.Error("following a push", "repo", repo, "error", scanErr)
		http.Error(w, scanErr.Error(), http.StatusInternalServerError)
		return
	}
	if answer.status != 0 {
		w.WriteHeader(answer.status)
	}
	_, _ = w.Write(answer.body.Bytes()) // the pusher may be gone; the push stands
}

// gitAccess answers the repository and the login that may do this to it.
func (h *Host) gitAccess(req *http.Request, repo string, push bool) (*repository, string, *apiError) {
	token, err := credentials(req)
	if err != nil {
		return nil, "", errBadCredentials
	}
	p, ok := h.authenticate(token)
	if !ok || p.app {
		return nil, "", errBadCredentials
	}
	r := h.repos[repo]
	switch {
	case p.inst != nil && p.inst.installation.Suspended:
		return nil, "", &apiError{status: 403, message: "This installation has been suspended"}
	case r == nil && h.renamed[repo] != nil:
		return nil, "", &apiError{status: http.StatusMovedPermanently, message: "Moved Permanently"}
	case r == nil && p.user == nil, r != nil && p.user == nil && (push || r.Private):
		return nil, "", errUnauthorized
	case r == nil, h.role(r, p.user) == RoleNone, p.inst != nil && r.Private && !h.covers(p.inst, r):
		return nil, "", &apiError{status: 404, message: "Repository not found."}
	}
	if push && (!atLeast(h.role(r, p.user), RoleWrite) || p.inst != nil && (!h.covers(p.inst, r) || !p.inst.may(h, "contents"))) {
		return nil, "", &apiError{status: 403, message: "Permission to " + r.fullName() + ".git denied to " + p.user.Login + "."}
	}
	if push && r.Archived {
		return nil, "", &apiError{status: 403, message: "This repository was archived so it is read-only."}
	}
	if p.user == nil {
		return r, "", nil
	}
	return r, p.user.Login, nil
}

// narrowed tells the hook what the token of a request lacks that the App was granted.
func (h *Host) narrowed(req *http.Request) []string {
	if token, err := credentials(req); err == nil && h.tokens[token] != nil && !h.tokens[token].may(h, "workflows") {
		return []string{"FAKEHOST_NO_WORKFLOWS=1"}
	}
	return nil
}

// spooledBody is a request body of known length: net/http/cgi refuses the
// chunked ones that git sends for anything above 1 MiB.
type spooledBody struct {
	file *os.File
	size int64
}

func spool(req *http.Request) (*spooledBody, error) {
	f, err := os.CreateTemp("", "fakehost-push-")
	if err != nil {
		return nil, fmt.Errorf("spooling a git request: %w", err)
	}
	s := &spooledBody{file: f}
	if s.size, err = io.Copy(f, req.Body); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("spooling a git request: %w", err)
	}
	return s, nil
}

// close removes the file; there is nothing to do about a failure.
func (s *spooledBody) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
