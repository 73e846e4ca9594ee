-- +goose Up

CREATE TABLE IF NOT EXISTS train (
  id              BIGINT       NOT NULL AUTO_INCREMENT,
  queue_id        BIGINT       NOT NULL,
  name            VARCHAR(64)  NOT NULL,
  status          TINYINT      NOT NULL COMMENT '1=OPEN 2=DEPARTED 3=CANCELLED',
  open_name       VARCHAR(64)  GENERATED ALWAYS AS (CASE WHEN status = 1 THEN name ELSE NULL END) STORED,
  scheduled       TINYINT      NOT NULL COMMENT '1 = follows the schedule in the repository file, 0 = made by an operator',
  departs_at      DATETIME(6)  NOT NULL,
  closes_at       DATETIME(6)  NOT NULL COMMENT 'end of boarding, at or before departs_at',
  seats           INT          NOT NULL COMMENT 'as wanted',
  capacity        INT          NOT NULL COMMENT 'in force: seats, or more while more are confirmed',
  confirmed_count INT          NOT NULL DEFAULT 0,
  next_seq        BIGINT       NOT NULL DEFAULT 1,
  version         BIGINT       NOT NULL DEFAULT 1,
  created_at      DATETIME(6)  NOT NULL,
  updated_at      DATETIME(6)  NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_train_open (queue_id, open_name),
  KEY idx_train_departure (status, departs_at),
  KEY idx_train_queue (queue_id, id),
  CONSTRAINT ck_train_seats CHECK (seats >= 0),
  CONSTRAINT ck_train_confirmed CHECK (confirmed_count >= 0 AND confirmed_count <= capacity)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS train_seat (
  id             BIGINT       NOT NULL AUTO_INCREMENT,
  train_id       BIGINT       NOT NULL,
  subject_id     BIGINT       NOT NULL COMMENT 'merge_request.id',
  operation_id   VARCHAR(36)  NOT NULL,
  status         TINYINT      NOT NULL COMMENT '1=CONFIRMED 2=WAITING 3=CANCELLED 4=DEPARTED',
  live_operation VARCHAR(36)  GENERATED ALWAYS AS (CASE WHEN status IN (1, 2) THEN operation_id ELSE NULL END) STORED,
  approved       TINYINT      NOT NULL COMMENT '1 = when last looked at; it is lost when that ends',
  queue_seq      BIGINT       NOT NULL COMMENT 'order of joining; joining again takes a new one',
  version        BIGINT       NOT NULL DEFAULT 1,
  created_at     DATETIME(6)  NOT NULL,
  updated_at     DATETIME(6)  NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_seat_subject (train_id, subject_id),
  UNIQUE KEY uk_seat_seq (train_id, queue_seq),
  UNIQUE KEY uk_seat_live (live_operation),
  KEY idx_seat_line (train_id, status, queue_seq),
  KEY idx_seat_operation (operation_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS approval_request (
  id               BIGINT        NOT NULL AUTO_INCREMENT,
  queue_id         BIGINT        NOT NULL,
  merge_request_id BIGINT        NOT NULL COMMENT 'the merge request it was drafted on; 0 = drafted through the API',
  status           TINYINT       NOT NULL COMMENT '1=DRAFT 2=PENDING_APPROVAL 3=APPROVED 4=DONE 5=REJECTED 6=CANCELLED',
  live_mr          BIGINT        GENERATED ALWAYS AS (CASE WHEN merge_request_id > 0 AND status IN (1, 2, 3, 5) THEN merge_request_id ELSE NULL END) STORED,
  drafter          VARCHAR(255)  NOT NULL,
  decider          VARCHAR(255)  NOT NULL COMMENT 'who approved or rejected; empty before',
  reason           VARCHAR(2000) NOT NULL COMMENT 'why it was rejected or cancelled, or what became of it',
  version          BIGINT        NOT NULL DEFAULT 1,
  created_at       DATETIME(6)   NOT NULL,
  updated_at       DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_curated_live (live_mr),
  KEY idx_curated_queue (queue_id, status, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS draft_row (
  id                  BIGINT      NOT NULL AUTO_INCREMENT,
  approval_request_id BIGINT      NOT NULL,
  row_no              INT         NOT NULL,
  number              BIGINT      NOT NULL COMMENT 'merge request',
  version             BIGINT      NOT NULL DEFAULT 1,
  created_at          DATETIME(6) NOT NULL,
  updated_at          DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_draft_row (approval_request_id, row_no),
  CONSTRAINT ck_draft_row CHECK (row_no >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS curated_row (
  id                  BIGINT      NOT NULL AUTO_INCREMENT,
  approval_request_id BIGINT      NOT NULL,
  row_no              INT         NOT NULL,
  number              BIGINT      NOT NULL COMMENT 'merge request',
  head_sha            VARCHAR(64) NOT NULL COMMENT 'pinned when submitted',
  operation_id        VARCHAR(36) NOT NULL COMMENT 'empty until approved',
  version             BIGINT      NOT NULL DEFAULT 1,
  created_at          DATETIME(6) NOT NULL,
  updated_at          DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_curated_row (approval_request_id, row_no),
  KEY idx_curated_operation (operation_id),
  CONSTRAINT ck_curated_row CHECK (row_no >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS api_request (
  request_id  VARCHAR(255) NOT NULL COMMENT 'idempotency.request_id: that row is the guard',
  fingerprint VARCHAR(64)  NOT NULL COMMENT 'SHA-256 of method, path and body',
  resource    VARCHAR(191) NOT NULL COMMENT 'path of what the request made or changed',
  expires_at  DATETIME(6)  NOT NULL,
  created_at  DATETIME(6)  NOT NULL,
  PRIMARY KEY (request_id),
  KEY idx_api_request_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_run (
  name       VARCHAR(64)   NOT NULL,
  tick_at    DATETIME(6)   NULL COMMENT 'the last tick taken, by a run or by skipping it; NULL = none yet',
  runs       BIGINT        NOT NULL COMMENT 'started so far; names the last one',
  skipped    BIGINT        NOT NULL COMMENT 'ticks that came while a run was under way',
  started_at DATETIME(6)   NULL COMMENT 'the last run',
  ended_at   DATETIME(6)   NULL COMMENT 'NULL = it has not',
  outcome    TINYINT       NOT NULL COMMENT '0=under way, or its process died 1=DONE 2=FAILED 3=STOPPED',
  summary    VARCHAR(2000) NOT NULL COMMENT 'what it did, or why it failed',
  started_by VARCHAR(255)  NOT NULL COMMENT 'an operator; empty = the schedule',
  version    BIGINT        NOT NULL DEFAULT 1,
  created_at DATETIME(6)   NOT NULL,
  updated_at DATETIME(6)   NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
