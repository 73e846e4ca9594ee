-- +goose Up

CREATE TABLE train (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_id        INTEGER NOT NULL,
  name            TEXT    NOT NULL,
  status          INTEGER NOT NULL, -- 1=OPEN 2=DEPARTED 3=CANCELLED
  open_name       TEXT    GENERATED ALWAYS AS (CASE WHEN status = 1 THEN name ELSE NULL END) STORED,
  scheduled       INTEGER NOT NULL, -- 1 = follows the schedule in the repository file, 0 = made by an operator
  departs_at      INTEGER NOT NULL,
  closes_at       INTEGER NOT NULL, -- end of boarding, at or before departs_at
  seats           INTEGER NOT NULL, -- as wanted
  capacity        INTEGER NOT NULL, -- in force: seats, or more while more are confirmed
  confirmed_count INTEGER NOT NULL DEFAULT 0,
  next_seq        INTEGER NOT NULL DEFAULT 1,
  version         INTEGER NOT NULL DEFAULT 1,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  CONSTRAINT ck_train_seats CHECK (seats >= 0),
  CONSTRAINT ck_train_confirmed CHECK (confirmed_count >= 0 AND confirmed_count <= capacity)
);
CREATE UNIQUE INDEX uk_train_open ON train (queue_id, open_name);
CREATE INDEX idx_train_departure ON train (status, departs_at);
CREATE INDEX idx_train_queue ON train (queue_id, id);

CREATE TABLE train_seat (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  train_id       INTEGER NOT NULL,
  subject_id     INTEGER NOT NULL, -- merge_request.id
  operation_id   TEXT    NOT NULL,
  status         INTEGER NOT NULL, -- 1=CONFIRMED 2=WAITING 3=CANCELLED 4=DEPARTED
  live_operation TEXT    GENERATED ALWAYS AS (CASE WHEN status IN (1, 2) THEN operation_id ELSE NULL END) STORED,
  approved       INTEGER NOT NULL, -- 1 = when last looked at; it is lost when that ends
  queue_seq      INTEGER NOT NULL, -- order of joining; joining again takes a new one
  version        INTEGER NOT NULL DEFAULT 1,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_seat_subject ON train_seat (train_id, subject_id);
CREATE UNIQUE INDEX uk_seat_seq ON train_seat (train_id, queue_seq);
CREATE UNIQUE INDEX uk_seat_live ON train_seat (live_operation);
CREATE INDEX idx_seat_line ON train_seat (train_id, status, queue_seq);
CREATE INDEX idx_seat_operation ON train_seat (operation_id);

CREATE TABLE approval_request (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_id         INTEGER NOT NULL,
  merge_request_id INTEGER NOT NULL, -- the merge request it was drafted on; 0 = drafted through the API
  status           INTEGER NOT NULL, -- 1=DRAFT 2=PENDING_APPROVAL 3=APPROVED 4=DONE 5=REJECTED 6=CANCELLED
  live_mr          INTEGER GENERATED ALWAYS AS (CASE WHEN merge_request_id > 0 AND status IN (1, 2, 3, 5) THEN merge_request_id ELSE NULL END) STORED,
  drafter          TEXT    NOT NULL,
  decider          TEXT    NOT NULL, -- who approved or rejected; empty before
  reason           TEXT    NOT NULL, -- why it was rejected or cancelled, or what became of it
  version          INTEGER NOT NULL DEFAULT 1,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_curated_live ON approval_request (live_mr);
CREATE INDEX idx_curated_queue ON approval_request (queue_id, status, id);

CREATE TABLE draft_row (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  approval_request_id INTEGER NOT NULL,
  row_no              INTEGER NOT NULL,
  number              INTEGER NOT NULL, -- merge request
  version             INTEGER NOT NULL DEFAULT 1,
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL,
  CONSTRAINT ck_draft_row CHECK (row_no >= 1)
);
CREATE UNIQUE INDEX uk_draft_row ON draft_row (approval_request_id, row_no);

CREATE TABLE curated_row (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  approval_request_id INTEGER NOT NULL,
  row_no              INTEGER NOT NULL,
  number              INTEGER NOT NULL, -- merge request
  head_sha            TEXT    NOT NULL, -- pinned when submitted
  operation_id        TEXT    NOT NULL, -- empty until approved
  version             INTEGER NOT NULL DEFAULT 1,
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL,
  CONSTRAINT ck_curated_row CHECK (row_no >= 1)
);
CREATE UNIQUE INDEX uk_curated_row ON curated_row (approval_request_id, row_no);
CREATE INDEX idx_curated_operation ON curated_row (operation_id);

CREATE TABLE api_request (
  request_id  TEXT    NOT NULL PRIMARY KEY, -- idempotency.request_id: that row is the guard
  fingerprint TEXT    NOT NULL, -- SHA-256 of method, path and body
  resource    TEXT    NOT NULL, -- path of what the request made or changed
  expires_at  INTEGER NOT NULL,
  created_at  INTEGER NOT NULL
);
CREATE INDEX idx_api_request_expiry ON api_request (expires_at);

CREATE TABLE job_run (
  name       TEXT    NOT NULL PRIMARY KEY,
  tick_at    INTEGER NULL, -- the last tick taken, by a run or by skipping it; NULL = none yet
  runs       INTEGER NOT NULL, -- started so far; names the last one
  skipped    INTEGER NOT NULL, -- ticks that came while a run was under way
  started_at INTEGER NULL, -- the last run
  ended_at   INTEGER NULL, -- NULL = it has not
  outcome    INTEGER NOT NULL, -- 0=under way, or its process died 1=DONE 2=FAILED 3=STOPPED
  summary    TEXT    NOT NULL, -- what it did, or why it failed
  started_by TEXT    NOT NULL, -- an operator; empty = the schedule
  version    INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
