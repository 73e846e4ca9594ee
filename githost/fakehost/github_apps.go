package fakehost

import (
	"net/http"
	"slices"
	"strings"
)

// asApp refuses everybody but the App's own JWT.
func (c *call) asApp() error {
	if !c.who.app {
		return &apiError{status: 401, message: "A JSON web token could not be decoded"}
	}
	return nil
}

func getApp(c *call) (int, any, error) {
	if err := c.asApp(); err != nil {
		return 0, nil, err
	}
	o := c.gh.app()
	o["installations_count"] = len(c.h.installations)
	return http.StatusOK, o, nil
}

func listInstallations(c *call) (int, any, error) {
	if err := c.asApp(); err != nil {
		return 0, nil, err
	}
	var all []*installation
	for _, in := range c.h.installations {
		all = append(all, in)
	}
	slices.SortFunc(all, func(a, b *installation) int { return int(a.ID - b.ID) })
	return http.StatusOK, list(page(c, all), c.gh.installation), nil
}

func (c *call) installation() (*installation, error) {
	if err := c.asApp(); err != nil {
		return nil, err
	}
	id := c.number("id")
	for _, in := range c.h.installations {
		if in.ID == id {
			return in, nil
		}
	}
	return nil, errNotFound
}

func getInstallation(c *call) (int, any, error) {
	in, err := c.installation()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.gh.installation(in), nil
}

func getRepoInstallation(c *call) (int, any, error) {
	if err := c.asApp(); err != nil {
		return 0, nil, err
	}
	in := c.h.installationOf(c.repo)
	if in == nil {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.gh.installation(in), nil
}

func createToken(c *call) (int, any, error) {
	in, err := c.installation()
	if err != nil {
		return 0, nil, err
	}
	if in.Suspended {
		return 0, nil, &apiError{status: 403, message: "This installation has been suspended"}
	}
	var want struct {
		RepositoryIDs []int64           `json:"repository_ids"`
		Repositories  []string          `json:"repositories"`
		Permissions   map[string]string `json:"permissions"`
	}
	// The body may be absent or null.
	if err := c.decode(&want); err != nil {
		return 0, nil, err
	}
	covered := c.h.covered(in)
	ids := want.RepositoryIDs
	for _, name := range want.Repositories {
		i := slices.IndexFunc(covered, func(r *repository) bool { return strings.EqualFold(r.Name, name) })
		if i < 0 {
			return 0, nil, &apiError{status: 422, message: "There is at least one repository that does not exist or is not accessible to the parent installation."}
		}
		ids = append(ids, covered[i].ID)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(covered, func(r *repository) bool { return r.ID == id }) {
			return 0, nil, &apiError{status: 422, message: "There is at least one repository that does not exist or is not accessible to the parent installation."}
		}
	}
	for name, level := range want.Permissions {
		if granted := c.h.opt.AppPermissions[name]; granted != level && granted != "write" {
			return 0, nil, &apiError{status: 422, message: "The permissions requested are not granted to this installation."}
		}
	}
	t := c.h.mint(in, ids)
	t.permissions = want.Permissions
	o := object{"token": t.token, "expires_at": moment(t.expires), "permissions": c.h.opt.AppPermissions, "repository_selection": "selected"}
	if want.Permissions != nil {
		o["permissions"] = want.Permissions
	}
	if len(ids) > 0 {
		kept := slices.DeleteFunc(covered, func(r *repository) bool { return !slices.Contains(ids, r.ID) })
		o["repositories"] = list(kept, c.gh.repo)
	}
	return http.StatusCreated, o, nil
}

func listInstallationRepos(c *call) (int, any, error) {
	if c.who.inst == nil {
		return 0, nil, &apiError{status: 403, message: "You must authenticate with an installation access token in order to list repositories for an installation."}
	}
	all := slices.DeleteFunc(c.h.covered(c.who.inst.installation), func(r *repository) bool { return !c.h.covers(c.who.inst, r) })
	return http.StatusOK, object{
		"total_count": len(all), "repository_selection": "selected",
		"repositories": list(page(c, all), func(r *repository) object { return c.gh.listedRepo(r, c.who) }),
	}, nil
}

func listHookDeliveries(c *call) (int, any, error) {
	if err := c.asApp(); err != nil {
		return 0, nil, err
	}
	newest := slices.Clone(c.h.deliveries)
	slices.Reverse(newest)
	return http.StatusOK, list(page(c, newest), func(d *delivery) object {
		status, code, at := "pending", 0, d.Created
		if n := len(d.Attempts); n > 0 {
			status, code, at = "OK", 200, d.Attempts[n-1].At
			if d.Attempts[n-1].Error != "" {
				status, code = "Invalid HTTP Response", 500
			}
		}
		return object{
			"id": d.ID, "guid": d.GUID, "delivered_at": moment(at), "redelivery": len(d.Attempts) > 1, "duration": 0.01, "status": status,
			"status_code": code, "event": d.Event, "action": orNull(d.Action), "installation_id": nil, "repository_id": d.repoID, "throttled_at": nil,
		}
	}), nil
}

func redeliverHook(c *call) (int, any, error) {
	if err := c.asApp(); err != nil {
		return 0, nil, err
	}
	id := c.number("id")
	for _, d := range c.h.deliveries {
		if d.ID == id {
			c.h.queue.add(func() { c.h.send(d) })
			return http.StatusAccepted, object{}, nil
		}
	}
	return 0, nil, errNotFound
}

func getUser(c *call) (int, any, error) {
	switch {
	case c.who.user == nil && !c.who.app:
		return 0, nil, errUnauthorized
	case c.who.app, c.who.inst != nil:
		return 0, nil, errNotByApp
	}
	return http.StatusOK, c.gh.profile(c.who.user), nil
}

func getUserByLogin(c *call) (int, any, error) {
	u := c.h.users[strings.ToLower(c.req.PathValue("login"))]
	if u == nil {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.gh.profile(u), nil
}

func (g *github) profile(u *user) object {
	o := g.user(u).(object)
	o["name"], o["email"], o["company"], o["blog"], o["location"], o["hireable"], o["bio"] = u.name(), u.email(), nil, "", nil, nil, nil
	o["public_repos"], o["public_gists"], o["followers"], o["following"] = 0, 0, 0, 0
	o["created_at"], o["updated_at"] = "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"
	return o
}

func getRateLimit(c *call) (int, any, error) {
	used, reset := 0, c.h.now()
	if r := c.h.rates[c.req.Header.Get("Authorization")]; r != nil {
		used, reset = r.used, r.reset
	}
	o := object{"limit": rateLimit, "used": used, "remaining": max(0, rateLimit-used), "reset": reset.Unix()}
	return http.StatusOK, object{"resources": object{"core": o, "search": o, "graphql": o}, "rate": o}, nil
}

func getMeta(*call) (int, any, error) {
	return http.StatusOK, object{"verifiable_password_authentication": false, "installed_version": "3.19.0", "hooks": []string{"127.0.0.0/8"}}, nil
}
