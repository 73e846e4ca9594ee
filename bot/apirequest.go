package bot

// APIRequest makes a write through the REST API count once: its row in the idempotency table is inserted in the transaction of the write, as that
// of a command is.
type APIRequest struct {
	ID          string // "api:TOKEN NAME:KEY"; without an Idempotency-Key a random one
	Fingerprint string // SHA-256 of method, path and body: the same key with another request is a mistake of the client
	Resource    string // path of what it makes or changes, if that is known before
}

// HandledRequest is what the idempotency table knows of an API request.
type HandledRequest struct {
	Fingerprint string
	Resource    string
	OperationID string // the operation it made or moved; empty: none
}
