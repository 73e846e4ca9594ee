-- The same repository: a train that departed with one of two, the next one with the other seated; a draft that was committed once before and edited since,
-- and a set that an approver rejected.

INSERT INTO train (id, queue_id, name, status, scheduled, departs_at, closes_at, seats, capacity, confirmed_count, next_seq, version, created_at, updated_at) VALUES
  (801, 70, 'nightly', 2, 1, {day 3}, {day 3}, 2, 2, 0, 3, 5, {day 2}, {day 3}),
  (802, 70, 'nightly', 1, 1, {day 40000}, {day 39999}, 1, 1, 1, 3, 3, {day 3}, {day 6});

INSERT INTO train_seat (id, train_id, subject_id, operation_id, status, approved, queue_seq, version, created_at, updated_at) VALUES
  (901, 801, 706, '00000000-0000-4000-8000-000000000006', 4, 1, 1, 2, {day 2}, {day 3}),
  (902, 802, 705, '00000000-0000-4000-8000-000000000005', 1, 0, 2, 2, {day 2}, {day 3});

INSERT INTO approval_request (id, queue_id, merge_request_id, status, drafter, decider, reason, version, created_at, updated_at) VALUES
  (1001, 70, 702, 1, 'ann', '', '', 3, {day 5}, {day 6}),
  (1002, 70, 0, 5, 'api:release', 'ben', 'not before the release', 4, {day 5}, {day 6});

INSERT INTO draft_row (id, approval_request_id, row_no, number, version, created_at, updated_at) VALUES
  (1101, 1001, 1, 2, 1, {day 5}, {day 5}),
  (1102, 1001, 2, 3, 2, {day 5}, {day 6});

INSERT INTO curated_row (id, approval_request_id, row_no, number, head_sha, operation_id, version, created_at, updated_at) VALUES
  (1201, 1001, 1, 2, '2222222222222222222222222222222222222222', '', 1, {day 5}, {day 5}),
  (1202, 1002, 1, 1, '1111111111111111111111111111111111111111', '', 1, {day 5}, {day 5});

INSERT INTO job_run (name, tick_at, runs, skipped, started_at, ended_at, outcome, summary, started_by, version, created_at, updated_at) VALUES
  ('cleanup', {day 6}, 12, 0, {day 6}, {day 6}, 1, '3 operations expired', '', 25, {day 1}, {day 6}),
  ('reconcile', {day 6}, 4, 1, {day 6}, NULL, 0, '', 'ann', 9, {day 1}, {day 6});
