-- +goose Up

CREATE TABLE IF NOT EXISTS repository (
  id               BIGINT        NOT NULL AUTO_INCREMENT,
  host             VARCHAR(64)   NOT NULL COMMENT 'configured, stable name of the host',
  external_id      BIGINT        NOT NULL COMMENT 'id on the host; survives renames',
  path             VARCHAR(512)  NOT NULL,
  installation     BIGINT        NOT NULL COMMENT '0 = plain token',
  default_branch   VARCHAR(255)  NOT NULL,
  active           TINYINT       NOT NULL COMMENT '1 = installed, 0 = ended',
  comments_seen_at BIGINT        NOT NULL COMMENT 'clock of the host, microseconds since 1970; 0 = never looked',
  version          BIGINT        NOT NULL DEFAULT 1,
  created_at       DATETIME(6)   NOT NULL,
  updated_at       DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_repository (host, external_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS queue (
  id            BIGINT        NOT NULL AUTO_INCREMENT,
  repository_id BIGINT        NOT NULL,
  target_branch VARCHAR(255)  NOT NULL,
  status        TINYINT       NOT NULL COMMENT '1=OPEN 2=PAUSED 3=PARKED',
  reason        VARCHAR(2000) NOT NULL COMMENT 'why it is paused or parked, with the remedy',
  settings      TEXT          NOT NULL COMMENT 'JSON',
  settings_blob VARCHAR(64)   NOT NULL COMMENT 'git blob id of the repository file; empty = defaults',
  version       BIGINT        NOT NULL DEFAULT 1,
  created_at    DATETIME(6)   NOT NULL,
  updated_at    DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_queue (repository_id, target_branch)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS merge_request (
  id                BIGINT        NOT NULL AUTO_INCREMENT,
  repository_id     BIGINT        NOT NULL,
  number            BIGINT        NOT NULL,
  title             VARCHAR(1024) NOT NULL,
  author_id         BIGINT        NOT NULL,
  author_login      VARCHAR(255)  NOT NULL,
  author_bot        TINYINT       NOT NULL,
  head_sha          VARCHAR(64)   NOT NULL COMMENT 'last head seen',
  last_command_at   BIGINT        NOT NULL COMMENT 'clock of the host, microseconds since 1970; 0 = none',
  last_command_id   BIGINT        NOT NULL COMMENT 'comment id; with last_command_at the order of commands',
  sticky_comment_id BIGINT        NOT NULL COMMENT '0 = none yet',
  version           BIGINT        NOT NULL DEFAULT 1,
  created_at        DATETIME(6)   NOT NULL,
  updated_at        DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_merge_request (repository_id, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS operation (
  operation_id     VARCHAR(36)   NOT NULL,
  repository_id    BIGINT        NOT NULL,
  queue_id         BIGINT        NOT NULL,
  merge_request_id BIGINT        NOT NULL,
  status           TINYINT       NOT NULL COMMENT '1=PENDING_APPROVAL 2=WAITING 3=BATCHED 4=MERGED 5=REJECTED 6=CANCELLED 7=CLOSED 8=EXPIRED 9=FAILED',
  requester        VARCHAR(255)  NOT NULL,
  head_sha         VARCHAR(64)   NOT NULL COMMENT 'pinned: the only commit that may land',
  lane             TINYINT       NOT NULL COMMENT '1=HIGH 2=NORMAL 3=LOW',
  reason           VARCHAR(32)   NOT NULL,
  detail           VARCHAR(2000) NOT NULL,
  version          BIGINT        NOT NULL DEFAULT 1,
  created_at       DATETIME(6)   NOT NULL,
  updated_at       DATETIME(6)   NOT NULL,
  PRIMARY KEY (operation_id),
  KEY idx_operation_followed (repository_id, status),
  KEY idx_operation_subject (merge_request_id, created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS binding (
  id           BIGINT       NOT NULL AUTO_INCREMENT,
  subject_id   BIGINT       NOT NULL COMMENT 'merge_request.id',
  target_key   VARCHAR(255) NOT NULL COMMENT 'target branch',
  operation_id VARCHAR(36)  NOT NULL COMMENT 'the current application; a write for another one is a stale callback',
  status       TINYINT      NOT NULL COMMENT '1=PENDING_APPROVAL 2=WAITING 3=BATCHED 4=MERGED 5=REJECTED 6=CANCELLED 7=CLOSED 8=EXPIRED 9=FAILED',
  expires_at   DATETIME(6)  NOT NULL,
  version      BIGINT       NOT NULL DEFAULT 1,
  created_at   DATETIME(6)  NOT NULL,
  updated_at   DATETIME(6)  NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_binding (subject_id, target_key),
  KEY idx_binding_operation (operation_id),
  KEY idx_binding_expiry (status, expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS binding_history (
  id           BIGINT        NOT NULL AUTO_INCREMENT,
  binding_id   BIGINT        NOT NULL,
  operation_id VARCHAR(36)   NOT NULL,
  from_status  TINYINT       NULL COMMENT 'as binding.status; NULL = applied',
  to_status    TINYINT       NOT NULL COMMENT 'as binding.status',
  reason       VARCHAR(32)   NOT NULL,
  detail       VARCHAR(2000) NOT NULL,
  head_sha     VARCHAR(64)   NOT NULL,
  batch_id     BIGINT        NOT NULL COMMENT '0 = no batch involved',
  actor        VARCHAR(255)  NOT NULL,
  created_at   DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  KEY idx_history_operation (operation_id, id),
  KEY idx_history_binding (binding_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS merge_batch_request (
  id           BIGINT      NOT NULL AUTO_INCREMENT,
  operation_id VARCHAR(36) NOT NULL,
  queue_id     BIGINT      NOT NULL,
  batch_id     BIGINT      NULL COMMENT 'NULL = waiting',
  lane         TINYINT     NOT NULL COMMENT '1=HIGH 2=NORMAL 3=LOW',
  cohort       BIGINT      NOT NULL COMMENT '0 = none, above 0 the batch that went red first, below 0 the curated batch',
  version      BIGINT      NOT NULL DEFAULT 1,
  created_at   DATETIME(6) NOT NULL COMMENT 'first admitted; keeps the place in the order',
  PRIMARY KEY (id),
  UNIQUE KEY uk_request_operation (operation_id),
  KEY idx_request_order (queue_id, batch_id, lane, created_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS merge_batch (
  id             BIGINT        NOT NULL AUTO_INCREMENT,
  queue_id       BIGINT        NOT NULL,
  status         TINYINT       NOT NULL COMMENT '1=RUNNING 2=SUCCEEDED 3=FAILED 4=BLOCKED',
  active_slot    BIGINT        GENERATED ALWAYS AS (CASE WHEN status IN (1, 4) THEN queue_id ELSE NULL END) STORED,
  phase          TINYINT       NOT NULL COMMENT '1=CLAIMED 2=BUILT 3=OPENED 4=LANDING',
  kind           TINYINT       NOT NULL COMMENT '1=FRESH 2=PROBE 3=VERIFY 4=CURATED',
  cohort         BIGINT        NOT NULL COMMENT '0 = none',
  token          VARCHAR(16)   NOT NULL,
  size           INT           NOT NULL COMMENT 'members claimed',
  tested         INT           NOT NULL DEFAULT 0 COMMENT 'members in the build recorded last',
  why            VARCHAR(500)  NOT NULL DEFAULT '' COMMENT 'why these members',
  build          INT           NOT NULL COMMENT 'builds recorded so far',
  base_sha       VARCHAR(64)   NOT NULL,
  head_sha       VARCHAR(64)   NOT NULL,
  landed_sha     VARCHAR(64)   NOT NULL,
  landed_differs TINYINT       NOT NULL COMMENT '1 = the landed tree is not the tested tree',
  mr_number      BIGINT        NOT NULL COMMENT '0 = no batch MR yet',
  code           VARCHAR(32)   NOT NULL,
  message        VARCHAR(2000) NOT NULL,
  refusals       INT           NOT NULL COMMENT 'landing refusals so far',
  restores       INT           NOT NULL DEFAULT 0 COMMENT 'times its branch was pushed again after somebody had deleted it',
  ci_conclusion  VARCHAR(16)   NOT NULL COMMENT 'success, failure or none; empty = not decided',
  ci_fingerprint VARCHAR(64)   NOT NULL COMMENT 'of the set of checks seen on the head',
  ci_changed_at  DATETIME(6)   NOT NULL COMMENT 'when ci_fingerprint last changed',
  phase_at       DATETIME(6)   NOT NULL COMMENT 'when the phase was entered',
  blocked_at     DATETIME(6)   NULL COMMENT 'when it last became BLOCKED; NULL = never',
  deadline_at    DATETIME(6)   NOT NULL,
  version        BIGINT        NOT NULL DEFAULT 1,
  created_at     DATETIME(6)   NOT NULL,
  updated_at     DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_batch_active (active_slot),
  KEY idx_batch_deadline (status, deadline_at),
  KEY idx_batch_updated (status, updated_at),
  KEY idx_batch_queue (queue_id, id),
  KEY idx_batch_mr (queue_id, mr_number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS merge_batch_member (
  id           BIGINT        NOT NULL AUTO_INCREMENT,
  batch_id     BIGINT        NOT NULL,
  operation_id VARCHAR(36)   NOT NULL COMMENT 'empty for HEAD',
  event        TINYINT       NOT NULL COMMENT '1=CLAIMED 2=BUILT 3=EVICTED 4=LANDED 5=RETURNED 6=FAILED 7=HEAD 8=LANDED_LATE',
  build        INT           NOT NULL COMMENT 'the build it belongs to; 0 = before the first',
  position     INT           NOT NULL COMMENT 'place in the batch from 1; 0 for HEAD',
  head_sha     VARCHAR(64)   NOT NULL,
  reason       VARCHAR(32)   NOT NULL,
  detail       VARCHAR(2000) NOT NULL,
  created_at   DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_member (batch_id, operation_id, event, build),
  KEY idx_member_operation (operation_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS audit (
  id           BIGINT        NOT NULL AUTO_INCREMENT,
  dedupe_key   VARCHAR(255)  NOT NULL,
  actor        VARCHAR(255)  NOT NULL,
  action       VARCHAR(64)   NOT NULL,
  queue_id     BIGINT        NOT NULL COMMENT '0 = none',
  operation_id VARCHAR(36)   NOT NULL COMMENT 'empty = none',
  batch_id     BIGINT        NOT NULL COMMENT '0 = none',
  source       VARCHAR(255)  NOT NULL COMMENT 'the delivery or API request it came from',
  detail       VARCHAR(2000) NOT NULL,
  created_at   DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_audit (dedupe_key),
  KEY idx_audit_operation (operation_id, id),
  KEY idx_audit_batch (batch_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS idempotency (
  request_id   VARCHAR(255) NOT NULL,
  operation_id VARCHAR(36)  NOT NULL COMMENT 'empty = the request made none',
  expires_at   DATETIME(6)  NOT NULL,
  created_at   DATETIME(6)  NOT NULL,
  PRIMARY KEY (request_id),
  KEY idx_idempotency_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS delivery (
  id              BIGINT        NOT NULL AUTO_INCREMENT,
  host            VARCHAR(64)   NOT NULL,
  delivery_key    VARCHAR(255)  NOT NULL,
  event           VARCHAR(64)   NOT NULL,
  payload         LONGBLOB      NULL COMMENT 'NULL = purged',
  status          TINYINT       NOT NULL COMMENT '1=DUE 2=DONE 3=IGNORED 4=FAILED',
  attempts        INT           NOT NULL,
  next_attempt_at DATETIME(6)   NOT NULL,
  error           VARCHAR(2000) NOT NULL,
  received_at     DATETIME(6)   NOT NULL,
  updated_at      DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_delivery (host, delivery_key),
  KEY idx_delivery_due (status, next_attempt_at),
  KEY idx_delivery_received (received_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS outbox (
  id              BIGINT        NOT NULL AUTO_INCREMENT,
  kind            TINYINT       NOT NULL COMMENT '1=STICKY 2=NOTICE 3=REPLY 4=REACTION 5=COMMIT_STATUS 6=BATCH_REPORT 7=DELETE_BRANCH 8=CLOSE_MEMBER 9=BATCH_MR 10=BATCH_NOTICE 11=REMINDER',
  target          VARCHAR(255)  NOT NULL,
  repository_id   BIGINT        NOT NULL,
  number          BIGINT        NOT NULL COMMENT 'merge request; 0 = none',
  payload         TEXT          NOT NULL COMMENT 'JSON',
  status          TINYINT       NOT NULL COMMENT '1=DUE 2=DONE 3=GIVEN_UP',
  wanted          BIGINT        NOT NULL COMMENT 'grows whenever it has to be said again',
  done            BIGINT        NOT NULL COMMENT 'wanted as of the last time it was said',
  attempts        INT           NOT NULL,
  next_attempt_at DATETIME(6)   NOT NULL,
  error           VARCHAR(2000) NOT NULL,
  created_at      DATETIME(6)   NOT NULL,
  updated_at      DATETIME(6)   NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_outbox (kind, target),
  KEY idx_outbox_due (status, next_attempt_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
