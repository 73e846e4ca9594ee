package fakehost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Rename gives a repository another name under the same owner. Its old path redirects.
func (h *Host) Rename(repo, name string) error {
	return h.with(repo, func(r *repository) error {
		from := r.Name
		if err := h.relocate(r, r.Owner, name); err != nil {
			return err
		}
		h.emit(event{kind: onRepository, action: "renamed", repo: r, actor: r.Owner, from: from})
		return nil
	})
}

// Transfer gives a repository to another owner. Its old path redirects; the App reaches it only if it is installed on that
// account too.
func (h *Host) Transfer(repo, owner string) error {
	return h.with(repo, func(r *repository) error {
		from, old := r.Owner, h.installationOf(r)
		u := h.addUser(owner)
		if u == from {
			return fmt.Errorf("%s belongs to %s already", repo, owner)
		}
		if err := h.relocate(r, u, r.Name); err != nil {
			return err
		}
		r.perms[strings.ToLower(owner)] = RoleAdmin
		if h.gl != nil {
			return nil // members and hooks are the project's
		}
		r.installed = false
		if old != nil {
			h.emit(event{kind: onInstalled, action: "removed", repo: r, actor: from, installation: old, repos: []*repository{r}})
		}
		if in := h.installations[strings.ToLower(owner)]; in != nil {
			h.install(r)
			h.emit(event{kind: onRepository, action: "transferred", repo: r, actor: from, from: from.Login})
		}
		return nil
	})
}

// relocate moves the folder, so that git by path finds the repository by its new name only.
func (h *Host) relocate(r *repository, owner *user, name string) error {
	from, to := strings.ToLower(r.fullName()), strings.ToLower(owner.Login+"/"+name)
	if h.repos[to] != nil {
		return fmt.Errorf("repository %s exists already", to)
	}
	path := h.RepoPath(owner.Login, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("moving %s: %w", from, err)
	}
	if err := os.Rename(r.path, path); err != nil {
		return fmt.Errorf("moving %s: %w", from, err)
	}
	delete(h.repos, from)
	delete(h.renamed, to)
	h.repos[to], h.renamed[from] = r, r
	r.Owner, r.Name, r.path, r.Updated = owner, name, path, h.now()
	return nil
}

// Delete removes a repository for good.
func (h *Host) Delete(repo string) error {
	return h.with(repo, func(r *repository) error {
		h.emit(event{kind: onRepository, action: "deleted", repo: r, actor: r.Owner})
		delete(h.repos, strings.ToLower(r.fullName()))
		for path, moved := range h.renamed {
			if moved == r {
				delete(h.renamed, path)
			}
		}
		r.installed = false
		if err := os.RemoveAll(r.path); err != nil {
			return fmt.Errorf("deleting %s: %w", repo, err)
		}
		return nil
	})
}

// SetArchived makes a repository read-only, or usable again.
func (h *Host) SetArchived(repo string, archived bool) error {
	return h.with(repo, func(r *repository) error {
		if r.Archived == archived {
			return nil
		}
		r.Archived = archived
		action := "unarchived"
		if archived {
			action = "archived"
		}
		h.emit(event{kind: onRepository, action: action, repo: r, actor: r.Owner})
		return nil
	})
}
