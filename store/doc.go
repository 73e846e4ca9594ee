// Package store keeps everything the bot knows, in MySQL, MariaDB or SQLite, with the same statements on each.
//
// The database's own constraints are the mutual exclusion: a unique key over a generated column allows one active batch per
// queue, unique keys make admissions, commands and deliveries count once, and every state write is guarded by the state and version it
// was decided on. No method holds a lock between two calls.
//
// How it is written:
//
//   - Every state change runs in one transaction at READ COMMITTED, as a whole, and is repeated as a whole when the database asks
//     for that (tx.go). At REPEATABLE READ a claim or a settlement would keep admissions waiting.
//   - Multi-row writes are pinned to the primary key, in chunks, and check how many rows they met.
//   - All times are the database's clock, in microseconds: written and compared by the database, never by the instance. With SQLite the
//     process is the database server, and batchbot_now() is its clock.
//   - A duplicate key is an answer where a key is named (tx.insert), an error elsewhere.
//   - Lock order: queue, train, approval_request, merge_batch, operation, binding, merge_batch_request, then what is only appended to, then outbox;
//     rows of one table in key order.
//
// Files: db.go opens and migrates; dialect.go, errors.go and tx.go are the ground; claim.go, batch.go, settle.go run batches; effects.go is what
// follows from every state change; lock.go holds advisory locks; the rest keeps records of what the host tells.
package store
