package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// keyHeader makes a POST count once.
const keyHeader = "Idempotency-Key"

// mostKey is the most characters of a key.
const mostKey = 128

// errDuplicate says that the store knows the request already.
var errDuplicate = errors.New("handled before")

func randomKey() string { return rand.Text() }

// apiRequest names a request. given is false where the client sent no key, or is no POST: then the name is random, for the audit, and nothing is to be
// remembered under it.
func (a *API) apiRequest(q *request, resource string) (name *bot.APIRequest, given bool, p *problem) {
	keys := q.Header.Values(keyHeader)
	key := ""
	if q.Method == http.MethodPost && len(keys) > 0 {
		key, given = keys[0], true
		odd := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
		if len(keys) > 1 || key == "" || len(key) > mostKey || odd {
			return nil, false, malformed.because("an Idempotency-Key is 1 to 128 visible ASCII characters, once")
		}
	}
	if !given {
		key = a.NewKey()
	}
	sum := sha256.New()
	for _, part := range []string{q.Method, "\n", q.URL.EscapedPath(), "\n"} {
		_, _ = sum.Write([]byte(part)) // never fails
	}
	_, _ = sum.Write(q.body)
	return &bot.APIRequest{ID: q.actor() + ":" + key, Fingerprint: hex.EncodeToString(sum.Sum(nil)), Resource: resource}, given, nil
}

// remembered is what the store keeps of a request: nothing where the client sent no key to find it by.
func remembered(name *bot.APIRequest, given bool) *bot.APIRequest {
	if !given {
		return nil
	}
	return name
}

// once does a POST once per key. resource is the path of what it is about, empty if do makes it; do returns errDuplicate where the store found the
// request handled; now shows the thing as it is, with the status of a first success.
//
// The look before makes a repetition cheap, and right where the state alone would refuse it: a set that this very request submitted is submitted
// already. The look behind is for requests that came in between.
func (a *API) once(ctx context.Context, q *request, resource string, do func(name *bot.APIRequest, given bool) (answer, error), now func(handled bot.HandledRequest) (answer, error)) (answer, error) {
	name, given, p := a.apiRequest(q, resource)
	if p != nil {
		return answer{}, p
	}
	if given {
		if result, known, err := a.replay(ctx, *name, now); err != nil || known {
			return result, err
		}
	}
	result, err := do(name, given)
	if given && err != nil {
		again, known, lookErr := a.replay(ctx, *name, now)
		switch {
		case known:
			return again, lookErr
		case errors.Is(err, errDuplicate) && lookErr != nil:
			return answer{}, lookErr
		}
	}
	if errors.Is(err, errDuplicate) {
		return answer{}, retryLater.because("a request with this Idempotency-Key is not visible yet, or its row was just deleted: send it again in a moment")
	}
	return result, err
}

// replay answers a request that was handled before; known is false when it was not.
func (a *API) replay(ctx context.Context, name bot.APIRequest, now func(handled bot.HandledRequest) (answer, error)) (result answer, known bool, err error) {
	handled, ok, err := a.Store.HandledRequest(ctx, name.ID)
	if err != nil || !ok {
		return answer{}, false, err
	}
	if handled.Fingerprint != name.Fingerprint {
		return answer{}, true, keyReused.because("this Idempotency-Key was sent with another method, path or body before: choose a new key for a new request")
	}
	result, err = now(handled)
	result.replayed = true
	return result, true, err
}
