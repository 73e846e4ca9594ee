package contract

import "strings"

// exceptions is exceptions.json: where GitHub's description is wrong or silent.
type exceptions struct {
	// Undescribed requests are of operations the description does not have.
	Undescribed []*undescribed `json:"undescribed"`
	// Statuses an operation answers with, though its description does not list them.
	Statuses []*unlistedStatus `json:"statuses"`
	// Fields that are not as described.
	Fields []*oddField `json:"fields"`
}

type undescribed struct {
	Request   string `json:"request"` // {name+} may contain slashes
	Why       string `json:"why"`
	operation *operation
}

type unlistedStatus struct {
	Request string `json:"request"` // "*" is every operation
	Status  int    `json:"status"`
	Why     string `json:"why"`
}

type oddField struct {
	In  string `json:"in"`  // a webhook, or an operation with its status; "*" at its end is anything
	At  string `json:"at"`  // a JSON pointer; a segment "*" is any index or key
	Odd string `json:"odd"` // what is wrong: a part of the finding
	Why string `json:"why"`
}

func (d *description) undescribed(method, path string) *undescribed {
	for _, u := range d.exceptions.Undescribed {
		want, _, _ := strings.Cut(u.Request, " ")
		if (want == method || want == "*") && u.operation.match.MatchString(path) {
			note("exception undescribed " + u.Request)
			return u
		}
	}
	return nil
}

func (d *description) allowsStatus(operation string, status int) bool {
	for _, s := range d.exceptions.Statuses {
		if s.Status == status && (s.Request == "*" || s.Request == operation) {
			note("exception status " + s.Request + " " + itoa(s.Status))
			return true
		}
	}
	return false
}

// knows tells whether a finding is one of the listed ones.
func (d *description) knows(in string, f finding) bool {
	for _, o := range d.exceptions.Fields {
		if like(o.In, in) && pointerLike(o.At, f.at) && strings.Contains(f.what, o.Odd) {
			note("exception field " + o.In + " " + o.At)
			return true
		}
	}
	return false
}

func like(pattern, s string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(s, start)
	}
	return pattern == s
}

func pointerLike(pattern, pointer string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(pointer, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return true
}
