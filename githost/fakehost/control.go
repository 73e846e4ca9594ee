package fakehost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// controlPrefix is where a separate process steers the world.
const controlPrefix = "/_fakehost/"

// PushRequest is a push by an author to a branch.
type PushRequest struct {
	Repo    string            `json:"repo"`
	Branch  string            `json:"branch"`
	From    string            `json:"from,omitempty"`
	Author  string            `json:"author"`
	Message string            `json:"message"`
	Files   map[string]string `json:"files"`
}

// Faults says which webhooks go wrong; zero values mean none.
type Faults struct {
	DropEvery      int `json:"drop_every,omitempty"`
	DuplicateEvery int `json:"duplicate_every,omitempty"`
}

func (f Faults) copies() func(Delivery) int {
	drop, double := DropEvery(f.DropEvery), DuplicateEvery(f.DuplicateEvery)
	return func(d Delivery) int { return min(drop(d), 1) * double(d) }
}

// controlRequest is the body of every control call; each uses its own part.
type controlRequest struct {
	Repo      string            `json:"repo"`
	Login     string            `json:"login"`
	Role      string            `json:"role"`
	Number    int               `json:"number"`
	Branch    string            `json:"branch"`
	Title     string            `json:"title"`
	Rules     Rules             `json:"rules"`
	Files     map[string]string `json:"files"`
	URL       string            `json:"url"`
	Secret    string            `json:"secret"`
	ID        int64             `json:"id"`
	SHA       string            `json:"sha"`
	NewMR     NewMR             `json:"mr"`
	Draft     bool              `json:"draft"`
	Installed bool              `json:"installed"`
	Archived  bool              `json:"archived"`
	Suspended bool              `json:"suspended"`
	Name      string            `json:"name"`
	Level     string            `json:"level"`
	PushRules PushRules         `json:"push_rules"`
}

func (h *Host) controlRoutes() http.Handler {
	mux := http.NewServeMux()
	on := func(path string, f func(body []byte) (any, error)) {
		mux.HandleFunc(controlPrefix+path, func(w http.ResponseWriter, req *http.Request) { h.control(w, req, f) })
	}
	// do decodes the common request first.
	do := func(path string, f func(controlRequest) (any, error)) {
		on(path, func(body []byte) (any, error) {
			var in controlRequest
			if err := decodeControl(body, &in); err != nil {
				return nil, err
			}
			return f(in)
		})
	}
	on("repository", func(body []byte) (any, error) {
		var in NewRepository
		if err := decodeControl(body, &in); err != nil {
			return nil, err
		}
		return object{}, h.AddRepository(in)
	})
	on("commit", func(body []byte) (any, error) {
		var in PushRequest
		if err := decodeControl(body, &in); err != nil {
			return nil, err
		}
		sha, err := h.Commit(in.Repo, in.Branch, in.From, in.Author, in.Message, in.Files)
		return object{"sha": sha}, err
	})
	on("ci", func(body []byte) (any, error) {
		var in CI
		if err := decodeControl(body, &in); err != nil {
			return nil, err
		}
		h.SetCI(in)
		return object{}, nil
	})
	on("faults", func(body []byte) (any, error) {
		var in Faults
		if err := decodeControl(body, &in); err != nil {
			return nil, err
		}
		h.SetFaults(in.copies())
		return object{}, nil
	})
	do("push-rules", func(in controlRequest) (any, error) { return object{}, h.SetPushRules(in.Repo, in.PushRules) })
	do("archived", func(in controlRequest) (any, error) { return object{}, h.SetArchived(in.Repo, in.Archived) })
	do("rename", func(in controlRequest) (any, error) { return object{}, h.Rename(in.Repo, in.Name) })
	do("transfer", func(in controlRequest) (any, error) { return object{}, h.Transfer(in.Repo, in.Login) })
	do("delete", func(in controlRequest) (any, error) { return object{}, h.Delete(in.Repo) })
	do("suspended", func(in controlRequest) (any, error) { return object{}, h.Suspend(in.Login, in.Suspended) })
	do("app-permission", func(in controlRequest) (any, error) { return object{}, h.SetAppPermission(in.Name, in.Level) })
	on("break", func(body []byte) (any, error) {
		var in []Fault
		if err := decodeControl(body, &in); err != nil {
			return nil, err
		}
		return object{}, h.Break(in...)
	})
	do("heal", func(controlRequest) (any, error) { h.Heal(); return object{}, nil })
	do("broken", func(controlRequest) (any, error) { return h.Broken(), nil })
	for path, f := range h.labControls() {
		on(path, func(body []byte) (any, error) {
			var in labRequest
			if err := decodeControl(body, &in); err != nil {
				return nil, err
			}
			return f(in)
		})
	}
	do("user", func(in controlRequest) (any, error) {
		h.AddUser(in.Login)
		return object{"token": in.Login + "-token"}, nil
	})
	do("permission", func(in controlRequest) (any, error) { return object{}, h.SetPermission(in.Repo, in.Login, in.Role) })
	do("rules", func(in controlRequest) (any, error) { return object{}, h.SetRules(in.Repo, in.Branch, in.Rules) })
	do("mr", func(in controlRequest) (any, error) {
		n, err := h.OpenMR(in.Repo, in.NewMR)
		return object{"number": n}, err
	})
	do("issue", func(in controlRequest) (any, error) {
		n, err := h.OpenIssue(in.Repo, in.Login, in.Title)
		return object{"number": n}, err
	})
	do("push", func(in controlRequest) (any, error) {
		sha, err := h.PushTo(in.Repo, in.Number, in.Files)
		return object{"sha": sha}, err
	})
	do("draft", func(in controlRequest) (any, error) {
		return object{}, h.SetDraft(in.Repo, in.Number, in.Login, in.Draft)
	})
	do("branch", func(in controlRequest) (any, error) {
		return object{}, h.SetBranch(in.Repo, in.Branch, in.SHA, in.Login)
	})
	do("installed", func(in controlRequest) (any, error) {
		if in.Installed {
			return object{}, h.Install(in.Repo)
		}
		return object{}, h.Uninstall(in.Repo)
	})
	do("webhook", func(in controlRequest) (any, error) { h.SetWebhook(in.URL, in.Secret); return object{}, nil })
	do("deliveries", func(controlRequest) (any, error) { return h.Deliveries(), nil })
	do("redeliver", func(in controlRequest) (any, error) {
		if in.ID != 0 {
			return object{"queued": 1}, h.Redeliver(in.ID)
		}
		return object{"queued": h.RedeliverAll()}, nil
	})
	do("finish-ci", func(in controlRequest) (any, error) {
		n, err := h.FinishCI(in.SHA)
		return object{"finished": n}, err
	})
	do("state", func(in controlRequest) (any, error) { return h.State(in.Repo) })
	return mux
}

func decodeControl(body []byte, v any) error {
	if len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("request body is not the expected JSON: %w", err)
	}
	return nil
}

func (h *Host) control(w http.ResponseWriter, req *http.Request, f func([]byte) (any, error)) {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		http.Error(w, "control is for loopback clients only", http.StatusForbidden)
		return
	}
	// A browser on this machine is not the operator: it cannot send this type
	// to another origin without asking first.
	if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "control wants POST with Content-Type application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
	var answer any
	if err == nil {
		answer, err = f(body)
	}
	status := http.StatusOK
	if err != nil {
		status, answer = http.StatusUnprocessableEntity, object{"error": err.Error()}
		var ref *refusal
		if errors.As(err, &ref) && ref.kind == refusedMissing {
			status = http.StatusNotFound
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}
