// Package api is the REST API: queues, batches and operations to look at, trains and curated batches to act on.
//
// It has no rules of its own. A request comes to the same functions as a command in a comment (seats: intake, trains: train, curated batches: curated)
// and its answer is what they made of it, so that both ways agree whatever happens beside them.
//
//	token → role → body, read strictly → once per Idempotency-Key → the function → an answer or a problem
//
// Every request needs a bearer token from the settings, at any address; without tokens there is no API. What is refused is a problem of
// RFC 9457 whose type is stable; problem.go lists all of them.
//
// A POST with an Idempotency-Key takes effect once. Its row is written in the transaction of what it does, so a crash leaves both or neither:
//
//	fresh        done now, with its row
//	duplicate    the row is there: the thing as it is now, with the status the first answer had and Idempotent-Replayed: true
//	retry later  somebody is at it right now and not visible yet
//
// Refusals write no row: what was corrected may be sent under the same key.
package api
