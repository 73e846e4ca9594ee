package fakehost

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// installation is the App on one account; it covers the account's repositories
// whose installed flag is set.
type installation struct {
	ID        int64
	Account   *user
	Created   time.Time
	Suspended bool
}

type installationToken struct {
	token        string
	installation *installation
	expires      time.Time
	repos        []int64           // none: all the installation covers
	permissions  map[string]string // nil: all the App was granted
}

const installationTokenLife = time.Hour

func (h *Host) slug() string { return strings.TrimSuffix(h.opt.BotLogin, "[bot]") }

func (h *Host) install(r *repository) {
	r.installed = true
	if h.gl != nil {
		return
	}
	key := strings.ToLower(r.Owner.Login)
	if in := h.installations[key]; in != nil {
		h.emit(event{kind: onInstalled, action: "added", repo: r, actor: r.Owner, installation: in, repos: []*repository{r}})
		return
	}
	in := &installation{ID: h.nextID(), Account: r.Owner, Created: h.now()}
	h.installations[key] = in
	h.emit(event{kind: onInstall, action: "created", actor: r.Owner, installation: in, repos: []*repository{r}})
}

// Install puts the App on a repository; nothing happens when it is there.
func (h *Host) Install(repo string) error {
	return h.with(repo, func(r *repository) error {
		if !r.installed {
			h.install(r)
		}
		return nil
	})
}

// Uninstall takes the App off a repository; off the account with its last one.
func (h *Host) Uninstall(repo string) error {
	return h.with(repo, func(r *repository) error {
		if !r.installed {
			return nil
		}
		in := h.installations[strings.ToLower(r.Owner.Login)]
		r.installed = false
		if h.gl != nil {
			return nil
		}
		if len(h.covered(in)) > 0 {
			h.emit(event{kind: onInstalled, action: "removed", repo: r, actor: r.Owner, installation: in, repos: []*repository{r}})
			return nil
		}
		delete(h.installations, strings.ToLower(r.Owner.Login))
		h.emit(event{kind: onInstall, action: "deleted", actor: r.Owner, installation: in, repos: []*repository{r}})
		return nil
	})
}

// Suspend suspends or restores the App's installation on an account. A
// suspended one gets no tokens.
func (h *Host) Suspend(account string, suspended bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.installations[strings.ToLower(account)]
	if in == nil {
		return fmt.Errorf("the App is not installed on %q", account)
	}
	in.Suspended = suspended
	action := "unsuspend"
	if suspended {
		action = "suspend"
	}
	h.emit(event{kind: onInstall, action: action, actor: in.Account, installation: in, repos: h.covered(in)})
	return nil
}

// covered lists the repositories of an installation by id.
func (h *Host) covered(in *installation) []*repository {
	var list []*repository
	for _, r := range h.repos {
		if r.installed && r.Owner == in.Account {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *repository) int { return int(a.ID - b.ID) })
	return list
}

func (h *Host) installationOf(r *repository) *installation {
	if !r.installed {
		return nil
	}
	return h.installations[strings.ToLower(r.Owner.Login)]
}

func (h *Host) mint(in *installation, repos []int64) *installationToken {
	sum := sha256.Sum256([]byte("token " + strconv.FormatInt(h.nextID(), 10)))
	t := &installationToken{
		token:        "ghs_" + hex.EncodeToString(sum[:18]),
		installation: in,
		expires:      h.now().Add(installationTokenLife).Truncate(time.Second),
		repos:        repos,
	}
	h.tokens[t.token] = t
	return t
}

// InstallationToken mints a token for the installation that covers repo, for
// git and REST as the bot.
func (h *Host) InstallationToken(repo string) (token string, err error) {
	err = h.with(repo, func(r *repository) error {
		in := h.installationOf(r)
		if in == nil {
			return fmt.Errorf("the App is not installed on %s", repo)
		}
		token = h.mint(in, nil).token
		return nil
	})
	return token, err
}

// may reports whether a token carries a permission to write.
func (t *installationToken) may(h *Host, permission string) bool {
	granted := t.permissions
	if granted == nil {
		granted = h.opt.AppPermissions
	}
	return granted[permission] == "write"
}

// SetAppPermission grants the App a permission on every account, or takes it away with an empty level, as its owner does on the
// App's page.
func (h *Host) SetAppPermission(permission, level string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	granted := maps.Clone(h.opt.AppPermissions)
	if granted[permission] = level; level == "" {
		delete(granted, permission)
	}
	h.opt.AppPermissions = granted
	for _, in := range h.installations {
		h.emit(event{kind: onInstall, action: "new_permissions_accepted", actor: in.Account, installation: in, repos: h.covered(in)})
	}
	for _, r := range h.repos {
		if err := h.protect(r); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) covers(t *installationToken, r *repository) bool {
	return h.installationOf(r) == t.installation && (len(t.repos) == 0 || slices.Contains(t.repos, r.ID))
}

// principal is who a request comes from; the zero value is nobody.
type principal struct {
	user *user
	app  bool               // authenticated by the App's JWT: not a user
	inst *installationToken // user is then the bot
}

// authenticate finds out who a token belongs to. ok is false for a token that
// is unknown or expired; an empty one is nobody.
func (h *Host) authenticate(token string) (p principal, ok bool) {
	if token == "" {
		return principal{}, true
	}
	if t := h.tokens[token]; t != nil {
		if h.now().After(t.expires) || h.installations[strings.ToLower(t.installation.Account.Login)] != t.installation {
			return principal{}, false
		}
		return principal{user: h.bot(), inst: t}, true
	}
	if strings.Count(token, ".") == 2 {
		return principal{app: true}, h.validJWT(token) == nil
	}
	if login, found := strings.CutSuffix(token, "-token"); found {
		if u := h.users[strings.ToLower(login)]; u != nil {
			return principal{user: u}, true
		}
	}
	return principal{}, false
}

// jwtSkew is how far an App's clock may be ahead.
const jwtSkew = time.Minute

func (h *Host) validJWT(token string) error {
	parts := strings.Split(token, ".")
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Iss any     `json:"iss"`
		Iat float64 `json:"iat"`
		Exp float64 `json:"exp"`
	}
	if err := decodePart(parts[0], &head); err != nil {
		return err
	}
	if err := decodePart(parts[1], &claims); err != nil {
		return err
	}
	if head.Alg != "RS256" {
		return fmt.Errorf("algorithm %q is not RS256", head.Alg)
	}
	if iss := fmt.Sprint(claims.Iss); iss != strconv.FormatInt(h.opt.AppID, 10) && claims.Iss != float64(h.opt.AppID) {
		return fmt.Errorf("issuer %q is not the App", iss)
	}
	now := float64(h.now().Unix())
	if claims.Exp <= now || claims.Iat > now+jwtSkew.Seconds() || claims.Exp-claims.Iat > 11*60 {
		return fmt.Errorf("the token is not valid now")
	}
	if h.opt.AppPublicKey == nil {
		return nil
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return rsa.VerifyPKCS1v15(h.opt.AppPublicKey, crypto.SHA256, digest[:], signature)
}

func decodePart(s string, v any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
