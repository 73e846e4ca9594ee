package fakehost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Roles, weakest first. RoleNone is the answer for a stranger to a private
// repository; on a public one everybody has at least RoleRead.
const (
	RoleNone     = "none"
	RoleRead     = "read"
	RoleTriage   = "triage"
	RoleWrite    = "write"
	RoleMaintain = "maintain"
	RoleAdmin    = "admin"
)

var roles = []string{RoleNone, RoleRead, RoleTriage, RoleWrite, RoleMaintain, RoleAdmin}

func atLeast(role, wanted string) bool {
	return slices.Index(roles, role) >= slices.Index(roles, wanted)
}

type user struct {
	ID    int64
	Login string
	Bot   bool
	Org   bool
}

func (u *user) name() string {
	if u.Bot || u.Login == "" {
		return u.Login
	}
	return strings.ToUpper(u.Login[:1]) + u.Login[1:]
}

func (u *user) email() string {
	return strings.NewReplacer("[", "", "]", "").Replace(u.Login) + "@example.com"
}

type repository struct {
	ID            int64
	Owner         *user
	Name          string
	DefaultBranch string
	Private       bool
	Archived      bool
	AllowMerge    bool
	AllowSquash   bool
	DeleteOnMerge bool
	Created       time.Time
	Updated       time.Time

	path       string
	installed  bool
	perms      map[string]string // lower-case login → role
	branches   map[string]string // as last seen; see scan
	threads    map[int]*thread
	lastNumber int
	comments   []*comment
	statuses   []*status
	suites     []*suite
	checks     []*check
	rules      map[string]Rules
	push       PushRules
	rulesets   map[string]int64 // branch → id, from the first time it has rules
	commits    map[string]*commit
	gl         gitlabProject // what only a GitLab knows of it
}

func (r *repository) fullName() string { return r.Owner.Login + "/" + r.Name }

// thread is an issue; with mr set it is a merge request.
type thread struct {
	ID        int64
	Number    int
	Author    *user
	Title     string
	Body      string
	Open      bool
	Created   time.Time
	Updated   time.Time
	ClosedAt  time.Time
	ClosedBy  *user
	Reactions []*reaction
	mr        *mergeRequest
}

type comment struct {
	ID        int64
	Thread    *thread
	Author    *user
	Body      string
	Created   time.Time
	Updated   time.Time
	Reactions []*reaction
}

type reaction struct {
	ID      int64
	User    *user
	Content string
	Created time.Time
}

// Rules are what the host demands of changes to one branch, of merges and of
// pushes: a push needs the checks on the pushed commit, and where approvals are
// required there is no push without a bypass.
type Rules struct {
	// RequiredChecks are the names of checks or status contexts that must have
	// succeeded on the head of a merge request before it can be merged.
	RequiredChecks []string `json:"required_checks,omitempty"`
	// Strict wants the head to contain the base's tip.
	Strict bool `json:"strict,omitempty"`
	// RequiredApprovals is how many approvals by people with write access a
	// merge needs; 0 demands none.
	RequiredApprovals int `json:"required_approvals,omitempty"`
	// DismissStale dismisses approvals when the head moves.
	DismissStale bool `json:"dismiss_stale,omitempty"`
	// Linear refuses merge commits.
	Linear bool `json:"linear,omitempty"`
	// MergeQueue lets nothing land but through the host's own queue, which this host does not have.
	MergeQueue bool `json:"merge_queue,omitempty"`
	// Methods are the ways a merge request may be merged: merge, squash, rebase; none named: all the repository allows.
	Methods []string `json:"methods,omitempty"`
	// Bypass names logins that the rules do not bind.
	Bypass []string `json:"bypass,omitempty"`
}

// bypasses tells whether the rules do not bind login.
func (x Rules) bypasses(login string) bool {
	return slices.ContainsFunc(x.Bypass, func(l string) bool { return strings.EqualFold(l, login) })
}

func (x Rules) empty() bool {
	return len(x.RequiredChecks) == 0 && x.RequiredApprovals == 0 && !x.Strict && !x.Linear && !x.DismissStale && !x.MergeQueue && len(x.Methods) == 0
}

// NewRepository describes a repository for AddRepository.
type NewRepository struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
	// DefaultBranch defaults to "main".
	DefaultBranch string `json:"default_branch,omitempty"`
	// Files is the first commit, path to content.
	Files map[string]string `json:"files,omitempty"`
	// Generate adds that many small generated files below src/.
	Generate int `json:"generate,omitempty"`
	// Permissions maps logins to roles; unknown users are added. The owner is
	// admin and the bot, when installed, has write access without being named.
	Permissions map[string]string `json:"permissions,omitempty"`
	// Private hides the repository from strangers.
	Private bool `json:"private,omitempty"`
	// NotInstalled leaves the App out: no webhooks, no installation token.
	NotInstalled bool `json:"not_installed,omitempty"`
	// SquashOnly forbids merge commits and allows squashing.
	SquashOnly bool `json:"squash_only,omitempty"`
	// DeleteBranchOnMerge removes head branches after a merge.
	DeleteBranchOnMerge bool `json:"delete_branch_on_merge,omitempty"`
}

// AddUser makes a user with the token login+"-token". An existing one stays.
func (h *Host) AddUser(login string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addUser(login)
}

func (h *Host) addUser(login string) *user {
	if u, ok := h.users[strings.ToLower(login)]; ok {
		return u
	}
	u := &user{ID: h.nextID(), Login: login}
	h.users[strings.ToLower(login)] = u
	return u
}

// AddRepository makes a repository with one commit on its default branch and,
// unless NotInstalled, installs the App on it.
func (h *Host) AddRepository(n NewRepository) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.Owner == "" || n.Name == "" {
		return fmt.Errorf("a repository needs an owner and a name, got %q/%q", n.Owner, n.Name)
	}
	key := strings.ToLower(n.Owner + "/" + n.Name)
	if h.repos[key] != nil {
		return fmt.Errorf("repository %s/%s exists already", n.Owner, n.Name)
	}
	r := &repository{
		ID:            h.nextID(),
		Owner:         h.addUser(n.Owner),
		Name:          n.Name,
		DefaultBranch: cmp.Or(n.DefaultBranch, "main"),
		Private:       n.Private,
		AllowMerge:    !n.SquashOnly,
		AllowSquash:   n.SquashOnly,
		DeleteOnMerge: n.DeleteBranchOnMerge,
		Created:       h.now(),
		Updated:       h.now(),
		path:          h.RepoPath(n.Owner, n.Name),
		perms:         map[string]string{strings.ToLower(n.Owner): RoleAdmin},
		branches:      map[string]string{},
		threads:       map[int]*thread{},
		rules:         map[string]Rules{},
		rulesets:      map[string]int64{},
		commits:       map[string]*commit{},
	}
	for login, role := range n.Permissions {
		if !slices.Contains(roles, role) {
			return fmt.Errorf("unknown role %q for %s: use one of %s", role, login, strings.Join(roles, ", "))
		}
	}
	for _, login := range sortedKeys(n.Permissions) {
		h.addUser(login)
		r.perms[strings.ToLower(login)] = n.Permissions[login]
	}
	if err := h.initRepository(r.path, r.DefaultBranch); err != nil {
		return fmt.Errorf("creating repository %s: %w", r.fullName(), err)
	}
	files := map[string]string{}
	for i := range n.Generate {
		files[fmt.Sprintf("src/part%02d/file%03d.txt", i/20, i)] = fmt.Sprintf("file %d\nfirst line\nsecond line\nthird line\n", i)
	}
	maps.Copy(files, n.Files)
	if len(files) == 0 {
		files["README.md"] = "# " + n.Name + "\n"
	}
	if _, err := h.writeCommit(r, "refs/heads/"+r.DefaultBranch, "", r.Owner, "Start "+n.Name, files); err != nil {
		return err
	}
	branches, err := readBranches(r.path)
	if err != nil {
		return err
	}
	r.branches = branches
	h.repos[key] = r
	if err := h.protect(r); err != nil {
		return err
	}
	if h.gl != nil {
		return h.gl.adopt(r, n)
	}
	if !n.NotInstalled {
		h.install(r)
	}
	return nil
}

// SetPermission gives login a role in repo; RoleNone takes it away.
func (h *Host) SetPermission(repo, login, role string) error {
	return h.with(repo, func(r *repository) error {
		if !slices.Contains(roles, role) {
			return fmt.Errorf("unknown role %q: use one of %s", role, strings.Join(roles, ", "))
		}
		h.addUser(login)
		r.perms[strings.ToLower(login)] = role
		return h.protect(r)
	})
}

// SetRules replaces the rules of one branch; the zero value removes them.
func (h *Host) SetRules(repo, branch string, rules Rules) error {
	return h.with(repo, func(r *repository) error {
		if rules.empty() {
			delete(r.rules, branch)
		} else {
			r.rules[branch] = rules
			if r.rulesets[branch] == 0 {
				r.rulesets[branch] = h.nextID()
			}
		}
		return h.protect(r)
	})
}

// with runs f on a repository under the lock, after its refs were looked at.
func (h *Host) with(repo string, f func(*repository) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, err := h.repo(repo)
	if err != nil {
		return err
	}
	return f(r)
}

func (h *Host) repo(fullName string) (*repository, error) {
	r := h.repos[strings.ToLower(fullName)]
	if r == nil {
		return nil, fmt.Errorf("no repository %q: add it with AddRepository", fullName)
	}
	return r, h.scan(r, h.bot())
}

func (h *Host) user(login string) (*user, error) {
	if u := h.users[strings.ToLower(login)]; u != nil {
		return u, nil
	}
	return nil, fmt.Errorf("no user %q: add it with AddUser", login)
}

// role is what u may do in r: its own role, write for the installed bot, read
// for anybody on a public repository.
func (h *Host) role(r *repository, u *user) string {
	role := RoleNone
	if u != nil {
		role = cmp.Or(r.perms[strings.ToLower(u.Login)], RoleNone)
		if role == RoleNone && u == h.bot() && r.installed {
			role = RoleWrite
			if h.gl != nil {
				role = RoleMaintain
			}
		}
	}
	if role == RoleNone && !r.Private {
		role = RoleRead
	}
	return role
}

// collaborates tells whether u has a role of its own, as opposed to what
// everybody has.
func (h *Host) collaborates(r *repository, u *user) bool {
	return cmp.Or(r.perms[strings.ToLower(u.Login)], RoleNone) != RoleNone
}

// Commit puts a commit by author on branch, which is made from the tip of from
// when it does not exist. Empty content deletes a file.
func (h *Host) Commit(repo, branch, from, author, message string, files map[string]string) (sha string, err error) {
	err = h.with(repo, func(r *repository) error {
		sha, err = h.commitBranch(r, branch, from, author, message, files)
		return err
	})
	return sha, err
}

func (h *Host) commitBranch(r *repository, branch, from, author, message string, files map[string]string) (string, error) {
	u, err := h.user(author)
	if err != nil {
		return "", err
	}
	parent := r.branches[branch]
	if parent == "" {
		if parent = r.branches[cmp.Or(from, r.DefaultBranch)]; parent == "" {
			return "", fmt.Errorf("no branch %q in %s to start %q from", from, r.fullName(), branch)
		}
	}
	sha, err := h.writeCommit(r, "refs/heads/"+branch, parent, u, message, files)
	if err != nil {
		return "", err
	}
	return sha, h.scan(r, u)
}

// SetBranch points branch at a commit as by a forced push of login; an empty
// sha deletes the branch.
func (h *Host) SetBranch(repo, branch, sha, login string) error {
	return h.with(repo, func(r *repository) error {
		u, err := h.user(login)
		if err != nil {
			return err
		}
		return h.moveBranch(r, branch, sha, u)
	})
}

func (h *Host) moveBranch(r *repository, branch, sha string, u *user) error {
	args := []string{"update-ref", "refs/heads/" + branch, sha}
	if sha == "" {
		args = []string{"update-ref", "-d", "refs/heads/" + branch}
	}
	if _, err := h.git(r.path, nil, args...); err != nil {
		return fmt.Errorf("moving %s of %s: %w", branch, r.fullName(), err)
	}
	return h.scan(r, u)
}
