-- +goose Up

-- Times are microseconds since 1970 UTC from batchbot_now(), which the store registers. The same tables, columns and keys as MySQL.

CREATE TABLE repository (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  host             TEXT    NOT NULL, -- configured, stable name of the host
  external_id      INTEGER NOT NULL, -- id on the host; survives renames
  path             TEXT    NOT NULL,
  installation     INTEGER NOT NULL, -- 0 = plain token
  default_branch   TEXT    NOT NULL,
  active           INTEGER NOT NULL, -- 1 = installed, 0 = ended
  comments_seen_at INTEGER NOT NULL, -- clock of the host, microseconds since 1970; 0 = never looked
  version          INTEGER NOT NULL DEFAULT 1,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_repository ON repository (host, external_id);

CREATE TABLE queue (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  repository_id INTEGER NOT NULL,
  target_branch TEXT    NOT NULL,
  status        INTEGER NOT NULL, -- 1=OPEN 2=PAUSED 3=PARKED
  reason        TEXT    NOT NULL, -- why it is paused or parked, with the remedy
  settings      TEXT    NOT NULL, -- JSON
  settings_blob TEXT    NOT NULL, -- git blob id of the repository file; empty = defaults
  version       INTEGER NOT NULL DEFAULT 1,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_queue ON queue (repository_id, target_branch);

CREATE TABLE merge_request (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  repository_id     INTEGER NOT NULL,
  number            INTEGER NOT NULL,
  title             TEXT    NOT NULL,
  author_id         INTEGER NOT NULL,
  author_login      TEXT    NOT NULL,
  author_bot        INTEGER NOT NULL,
  head_sha          TEXT    NOT NULL, -- last head seen
  last_command_at   INTEGER NOT NULL, -- clock of the host, microseconds since 1970; 0 = none
  last_command_id   INTEGER NOT NULL, -- comment id; with last_command_at the order of commands
  sticky_comment_id INTEGER NOT NULL, -- 0 = none yet
  version           INTEGER NOT NULL DEFAULT 1,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_merge_request ON merge_request (repository_id, number);

CREATE TABLE operation (
  operation_id     TEXT    NOT NULL,
  repository_id    INTEGER NOT NULL,
  queue_id         INTEGER NOT NULL,
  merge_request_id INTEGER NOT NULL,
  status           INTEGER NOT NULL, -- 1=PENDING_APPROVAL 2=WAITING 3=BATCHED 4=MERGED 5=REJECTED 6=CANCELLED 7=CLOSED 8=EXPIRED 9=FAILED
  requester        TEXT    NOT NULL,
  head_sha         TEXT    NOT NULL, -- pinned: the only commit that may land
  lane             INTEGER NOT NULL, -- 1=HIGH 2=NORMAL 3=LOW
  reason           TEXT    NOT NULL,
  detail           TEXT    NOT NULL,
  version          INTEGER NOT NULL DEFAULT 1,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL,
  PRIMARY KEY (operation_id)
);
CREATE INDEX idx_operation_followed ON operation (repository_id, status);
CREATE INDEX idx_operation_subject ON operation (merge_request_id, created_at);

CREATE TABLE binding (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  subject_id   INTEGER NOT NULL, -- merge_request.id
  target_key   TEXT    NOT NULL, -- target branch
  operation_id TEXT    NOT NULL, -- the current application; a write for another one is a stale callback
  status       INTEGER NOT NULL, -- 1=PENDING_APPROVAL 2=WAITING 3=BATCHED 4=MERGED 5=REJECTED 6=CANCELLED 7=CLOSED 8=EXPIRED 9=FAILED
  expires_at   INTEGER NOT NULL,
  version      INTEGER NOT NULL DEFAULT 1,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_binding ON binding (subject_id, target_key);
CREATE INDEX idx_binding_operation ON binding (operation_id);
CREATE INDEX idx_binding_expiry ON binding (status, expires_at);

CREATE TABLE binding_history (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  binding_id   INTEGER NOT NULL,
  operation_id TEXT    NOT NULL,
  from_status  INTEGER NULL, -- as binding.status; NULL = applied
  to_status    INTEGER NOT NULL, -- as binding.status
  reason       TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  head_sha     TEXT    NOT NULL,
  batch_id     INTEGER NOT NULL, -- 0 = no batch involved
  actor        TEXT    NOT NULL,
  created_at   INTEGER NOT NULL
);
CREATE INDEX idx_history_operation ON binding_history (operation_id, id);
CREATE INDEX idx_history_binding ON binding_history (binding_id, id);

CREATE TABLE merge_batch_request (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  operation_id TEXT    NOT NULL,
  queue_id     INTEGER NOT NULL,
  batch_id     INTEGER NULL, -- NULL = waiting
  lane         INTEGER NOT NULL, -- 1=HIGH 2=NORMAL 3=LOW
  cohort       INTEGER NOT NULL, -- 0 = none, above 0 the batch that went red first, below 0 the curated batch
  version      INTEGER NOT NULL DEFAULT 1,
  created_at   INTEGER NOT NULL -- first admitted; keeps the place in the order
);
CREATE UNIQUE INDEX uk_request_operation ON merge_batch_request (operation_id);
CREATE INDEX idx_request_order ON merge_batch_request (queue_id, batch_id, lane, created_at, id);

CREATE TABLE merge_batch (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_id       INTEGER NOT NULL,
  status         INTEGER NOT NULL, -- 1=RUNNING 2=SUCCEEDED 3=FAILED 4=BLOCKED
  active_slot    INTEGER GENERATED ALWAYS AS (CASE WHEN status IN (1, 4) THEN queue_id ELSE NULL END) STORED,
  phase          INTEGER NOT NULL, -- 1=CLAIMED 2=BUILT 3=OPENED 4=LANDING
  kind           INTEGER NOT NULL, -- 1=FRESH 2=PROBE 3=VERIFY 4=CURATED
  cohort         INTEGER NOT NULL, -- 0 = none
  token          TEXT    NOT NULL,
  size           INTEGER NOT NULL, -- members claimed
  tested         INTEGER NOT NULL DEFAULT 0, -- members in the build recorded last
  why            TEXT    NOT NULL DEFAULT '', -- why these members
  build          INTEGER NOT NULL, -- builds recorded so far
  base_sha       TEXT    NOT NULL,
  head_sha       TEXT    NOT NULL,
  landed_sha     TEXT    NOT NULL,
  landed_differs INTEGER NOT NULL, -- 1 = the landed tree is not the tested tree
  mr_number      INTEGER NOT NULL, -- 0 = no batch MR yet
  code           TEXT    NOT NULL,
  message        TEXT    NOT NULL,
  refusals       INTEGER NOT NULL, -- landing refusals so far
  restores       INTEGER NOT NULL DEFAULT 0, -- times its branch was pushed again after somebody had deleted it
  ci_conclusion  TEXT    NOT NULL, -- success, failure or none; empty = not decided
  ci_fingerprint TEXT    NOT NULL, -- of the set of checks seen on the head
  ci_changed_at  INTEGER NOT NULL, -- when ci_fingerprint last changed
  phase_at       INTEGER NOT NULL, -- when the phase was entered
  blocked_at     INTEGER NULL, -- when it last became BLOCKED; NULL = never
  deadline_at    INTEGER NOT NULL,
  version        INTEGER NOT NULL DEFAULT 1,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_batch_active ON merge_batch (active_slot);
CREATE INDEX idx_batch_deadline ON merge_batch (status, deadline_at);
CREATE INDEX idx_batch_updated ON merge_batch (status, updated_at);
CREATE INDEX idx_batch_queue ON merge_batch (queue_id, id);
CREATE INDEX idx_batch_mr ON merge_batch (queue_id, mr_number);

CREATE TABLE merge_batch_member (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  batch_id     INTEGER NOT NULL,
  operation_id TEXT    NOT NULL, -- empty for HEAD
  event        INTEGER NOT NULL, -- 1=CLAIMED 2=BUILT 3=EVICTED 4=LANDED 5=RETURNED 6=FAILED 7=HEAD 8=LANDED_LATE
  build        INTEGER NOT NULL, -- the build it belongs to; 0 = before the first
  position     INTEGER NOT NULL, -- place in the batch from 1; 0 for HEAD
  head_sha     TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  created_at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_member ON merge_batch_member (batch_id, operation_id, event, build);
CREATE INDEX idx_member_operation ON merge_batch_member (operation_id, id);

CREATE TABLE audit (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  dedupe_key   TEXT    NOT NULL,
  actor        TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  queue_id     INTEGER NOT NULL, -- 0 = none
  operation_id TEXT    NOT NULL, -- empty = none
  batch_id     INTEGER NOT NULL, -- 0 = none
  source       TEXT    NOT NULL, -- the delivery or API request it came from
  detail       TEXT    NOT NULL,
  created_at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_audit ON audit (dedupe_key);
CREATE INDEX idx_audit_operation ON audit (operation_id, id);
CREATE INDEX idx_audit_batch ON audit (batch_id, id);

CREATE TABLE idempotency (
  request_id   TEXT    NOT NULL,
  operation_id TEXT    NOT NULL, -- empty = the request made none
  expires_at   INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (request_id)
);
CREATE INDEX idx_idempotency_expiry ON idempotency (expires_at);

CREATE TABLE delivery (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  host            TEXT    NOT NULL,
  delivery_key    TEXT    NOT NULL,
  event           TEXT    NOT NULL,
  payload         BLOB    NULL, -- NULL = purged
  status          INTEGER NOT NULL, -- 1=DUE 2=DONE 3=IGNORED 4=FAILED
  attempts        INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  error           TEXT    NOT NULL,
  received_at     INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_delivery ON delivery (host, delivery_key);
CREATE INDEX idx_delivery_due ON delivery (status, next_attempt_at);
CREATE INDEX idx_delivery_received ON delivery (received_at);

CREATE TABLE outbox (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  kind            INTEGER NOT NULL, -- 1=STICKY 2=NOTICE 3=REPLY 4=REACTION 5=COMMIT_STATUS 6=BATCH_REPORT 7=DELETE_BRANCH 8=CLOSE_MEMBER 9=BATCH_MR 10=BATCH_NOTICE 11=REMINDER
  target          TEXT    NOT NULL,
  repository_id   INTEGER NOT NULL,
  number          INTEGER NOT NULL, -- merge request; 0 = none
  payload         TEXT    NOT NULL, -- JSON
  status          INTEGER NOT NULL, -- 1=DUE 2=DONE 3=GIVEN_UP
  wanted          INTEGER NOT NULL, -- grows whenever it has to be said again
  done            INTEGER NOT NULL, -- wanted as of the last time it was said
  attempts        INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  error           TEXT    NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_outbox ON outbox (kind, target);
CREATE INDEX idx_outbox_due ON outbox (status, next_attempt_at);
