package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// problem is a refusal as RFC 9457 writes it. Type is stable; Detail is for people.
type problem struct {
	Type     string    `json:"type"`
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Detail   string    `json:"detail"`
	Instance string    `json:"instance"`
	Problems []finding `json:"problems,omitempty"`

	retryAfter time.Duration
	header     http.Header
}

// finding is one of several things that are wrong.
type finding struct {
	Field   string `json:"field,omitempty"` // of the request: where it stands, as in rows[2].row_no
	Row     int    `json:"row"`             // row number; 0: the set as a whole, or a row without a number
	MR      int    `json:"mr"`              // merge request of the row; 0 without
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Error is the detail.
func (p *problem) Error() string { return p.Detail }

// kind is a type of problem. Every one of them is described in the OpenAPI document under its name.
type kind struct {
	name   string
	status int
	title  string
}

var (
	apiOff           = kind{"api-off", http.StatusNotFound, "The REST API is off"}
	unauthorized     = kind{"unauthorized", http.StatusUnauthorized, "A bearer token is needed"}
	forbidden        = kind{"forbidden", http.StatusForbidden, "The token's role does not allow this"}
	notFound         = kind{"not-found", http.StatusNotFound, "There is no such thing"}
	methodNotAllowed = kind{"method-not-allowed", http.StatusMethodNotAllowed, "This method does not exist here"}
	notJSON          = kind{"not-json", http.StatusUnsupportedMediaType, "The body is not declared as JSON"}
	tooLarge         = kind{"too-large", http.StatusRequestEntityTooLarge, "The body is too large"}
	malformed        = kind{"malformed", http.StatusBadRequest, "The request cannot be read"}
	invalid          = kind{"invalid", http.StatusUnprocessableEntity, "The request says something that cannot be"}
	keyReused        = kind{"key-reused", http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request"}
	retryLater       = kind{"retry-later", http.StatusServiceUnavailable, "Somebody is at it right now"}
	unavailable      = kind{"unavailable", http.StatusServiceUnavailable, "It cannot be done at the moment"}

	trainExists  = kind{"train-exists", http.StatusConflict, "A train of this name is open"}
	trainOver    = kind{"train-over", http.StatusConflict, "The train is not open any more"}
	boardingOver = kind{"boarding-over", http.StatusConflict, "Boarding is over"}
	seatRefused  = kind{"seat-refused", http.StatusConflict, "The merge request cannot have a seat"}
	noSeat       = kind{"no-seat", http.StatusNotFound, "The merge request holds no seat"}

	alreadySubmitted = kind{"already-submitted", http.StatusConflict, "The curated batch was submitted before"}
	alreadyDecided   = kind{"already-decided", http.StatusConflict, "The curated batch is decided"}
	notSubmitted     = kind{"not-submitted", http.StatusConflict, "The curated batch is not submitted"}
	versionNeeded    = kind{"version-needed", http.StatusPreconditionRequired, "If-Match has to say which version is replaced"}
	changed          = kind{"changed", http.StatusConflict, "The curated batch changed meanwhile"}
	busy             = kind{"busy", http.StatusConflict, "A member is busy elsewhere"}
	checksFailed     = kind{"checks-failed", http.StatusUnprocessableEntity, "The curated batch does not pass its checks"}
	mayNotDecide     = kind{"may-not-decide", http.StatusForbidden, "Somebody else has to decide this"}
)

// shortly is how long somebody waits who is asked to try again.
const shortly = 2 * time.Second

// because makes a problem of a kind.
func (k kind) because(detail string, problems ...finding) *problem {
	p := &problem{Type: "/problems/" + k.name, Title: k.title, Status: k.status, Detail: detail, Problems: problems}
	if k.status == http.StatusServiceUnavailable {
		p.retryAfter = shortly
	}
	return p
}

// with adds a header to the answer.
func (p *problem) with(name, value string) *problem {
	if p.header == nil {
		p.header = make(http.Header)
	}
	p.header.Set(name, value)
	return p
}

// at refuses one field of the request.
func at(field, message string) finding {
	return finding{Field: field, Kind: string(bot.ProblemRows), Message: message}
}

func (p *problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.header)
	if p.retryAfter > 0 {
		seconds := (p.retryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, mediaType string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("api: a value that cannot be written as JSON: " + err.Error())
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
