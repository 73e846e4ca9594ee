-- One repository as version 1 left it: on main a batch in CI with two members, two who wait (the later one in the lane HIGH), one who asks for
-- approval, one who landed; a paused and a parked queue; a webhook and an errand not yet dealt with. {day N} is noon of day N.

INSERT INTO repository (id, host, external_id, path, installation, default_branch, active, comments_seen_at, version, created_at, updated_at) VALUES
  (7, 'forge', 4711, 'fruit/basket', 99, 'main', 1, 1767225600000000, 3, {day 1}, {day 9});

INSERT INTO queue (id, repository_id, target_branch, status, reason, settings, settings_blob, version, created_at, updated_at) VALUES
  (70, 7, 'main', 1, '', '{"branch":"main","max_batch_size":20,"fill_wait":60000000000,"landing":"push","approvals":{"count":2,"minimum":"maintain"},"checks":{"required":["ci"],"none_after":300000000000,"none":"wait","quiet_time":30000000000},"timeout":7200000000000}', 'b10b', 4, {day 1}, {day 8}),
  (71, 7, 'release', 2, 'paused by ann: freeze', '{"branch":"release","max_batch_size":50,"fill_wait":0,"landing":"merge","approvals":{"count":1,"minimum":"write"},"checks":{"required":null,"none_after":300000000000,"none":"wait","quiet_time":30000000000},"timeout":7200000000000}', '', 2, {day 1}, {day 3}),
  (72, 7, 'next', 3, 'NO_CI: make CI run', '{"branch":"next","max_batch_size":50,"fill_wait":0,"landing":"manual","approvals":{"count":1,"minimum":"write"},"checks":{"required":null,"none_after":300000000000,"none":"pass","quiet_time":30000000000},"timeout":7200000000000}', '', 2, {day 1}, {day 4});

INSERT INTO merge_request (id, repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id, sticky_comment_id, version, created_at, updated_at) VALUES
  (701, 7, 1, 'Änderung 1 🍎', 11, 'ann', 0, '1111111111111111111111111111111111111111', 1767225600000001, 901, 801, 2, {day 2}, {day 6}),
  (702, 7, 2, 'Change 2', 12, 'bob', 0, '2222222222222222222222222222222222222222', 1767225600000002, 902, 802, 2, {day 2}, {day 6}),
  (703, 7, 3, 'Change 3', 13, 'cid', 0, '3333333333333333333333333333333333333333', 1767225600000003, 903, 803, 1, {day 2}, {day 5}),
  (704, 7, 4, 'Change 4', 14, 'dea', 0, '4444444444444444444444444444444444444444', 1767225600000004, 904, 0, 1, {day 2}, {day 5}),
  (705, 7, 5, 'Change 5', 15, 'eve', 0, '5555555555555555555555555555555555555555', 1767225600000005, 905, 0, 1, {day 3}, {day 5}),
  (706, 7, 6, 'Change 6', 16, 'robot', 1, '6666666666666666666666666666666666666666', 1767225600000006, 906, 806, 5, {day 1}, {day 4});

INSERT INTO operation (operation_id, repository_id, queue_id, merge_request_id, status, requester, head_sha, lane, reason, detail, version, created_at, updated_at) VALUES
  ('00000000-0000-4000-8000-000000000001', 7, 70, 701, 3, 'ann', '1111111111111111111111111111111111111111', 2, '', '', 2, {day 2}, {day 6}),
  ('00000000-0000-4000-8000-000000000002', 7, 70, 702, 3, 'bob', '2222222222222222222222222222222222222222', 2, '', '', 2, {day 2}, {day 6}),
  ('00000000-0000-4000-8000-000000000003', 7, 70, 703, 2, 'cid', '3333333333333333333333333333333333333333', 2, '', '', 1, {day 2}, {day 5}),
  ('00000000-0000-4000-8000-000000000004', 7, 70, 704, 2, 'dea', '4444444444444444444444444444444444444444', 1, '', '', 1, {day 2}, {day 5}),
  ('00000000-0000-4000-8000-000000000005', 7, 70, 705, 1, 'eve', '5555555555555555555555555555555555555555', 2, '', '', 1, {day 3}, {day 3}),
  ('00000000-0000-4000-8000-000000000006', 7, 70, 706, 4, 'ann', '6666666666666666666666666666666666666666', 2, 'LANDED', '', 3, {day 1}, {day 4});

INSERT INTO binding (id, subject_id, target_key, operation_id, status, expires_at, version, created_at, updated_at) VALUES
  (711, 701, 'main', '00000000-0000-4000-8000-000000000001', 3, {day 40000}, 2, {day 2}, {day 6}),
  (712, 702, 'main', '00000000-0000-4000-8000-000000000002', 3, {day 40000}, 2, {day 2}, {day 6}),
  (713, 703, 'main', '00000000-0000-4000-8000-000000000003', 2, {day 40000}, 1, {day 2}, {day 5}),
  (714, 704, 'main', '00000000-0000-4000-8000-000000000004', 2, {day 40000}, 1, {day 2}, {day 5}),
  (715, 705, 'main', '00000000-0000-4000-8000-000000000005', 1, {day 40000}, 1, {day 3}, {day 3}),
  (716, 706, 'main', '00000000-0000-4000-8000-000000000006', 4, {day 31}, 3, {day 1}, {day 4});

INSERT INTO binding_history (id, binding_id, operation_id, from_status, to_status, reason, detail, head_sha, batch_id, actor, created_at) VALUES
  (1, 716, '00000000-0000-4000-8000-000000000006', NULL, 2, '', '', '6666666666666666666666666666666666666666', 0, 'ann', {day 1}),
  (2, 716, '00000000-0000-4000-8000-000000000006', 2, 3, '', '', '6666666666666666666666666666666666666666', 30, 'batchbot', {day 3}),
  (3, 716, '00000000-0000-4000-8000-000000000006', 3, 4, 'LANDED', '', '6666666666666666666666666666666666666666', 30, 'batchbot', {day 4}),
  (4, 711, '00000000-0000-4000-8000-000000000001', NULL, 2, '', '', '1111111111111111111111111111111111111111', 0, 'ann', {day 2}),
  (5, 712, '00000000-0000-4000-8000-000000000002', NULL, 2, '', '', '2222222222222222222222222222222222222222', 0, 'bob', {day 2}),
  (6, 713, '00000000-0000-4000-8000-000000000003', NULL, 2, '', '', '3333333333333333333333333333333333333333', 0, 'cid', {day 2}),
  (7, 714, '00000000-0000-4000-8000-000000000004', NULL, 2, '', '', '4444444444444444444444444444444444444444', 0, 'dea', {day 2}),
  (8, 715, '00000000-0000-4000-8000-000000000005', NULL, 1, '', '', '5555555555555555555555555555555555555555', 0, 'eve', {day 3}),
  (9, 711, '00000000-0000-4000-8000-000000000001', 2, 3, '', '', '1111111111111111111111111111111111111111', 31, 'batchbot', {day 6}),
  (10, 712, '00000000-0000-4000-8000-000000000002', 2, 3, '', '', '2222222222222222222222222222222222222222', 31, 'batchbot', {day 6});

INSERT INTO merge_batch (id, queue_id, status, phase, kind, cohort, token, size, build, base_sha, head_sha, landed_sha, landed_differs, mr_number, code, message, refusals, ci_conclusion, ci_fingerprint, ci_changed_at, phase_at, deadline_at, version, created_at, updated_at) VALUES
  (30, 70, 2, 4, 1, 0, '0badcafe', 1, 1, 'a000000000000000000000000000000000000000', 'b000000000000000000000000000000000000000', 'b000000000000000000000000000000000000000', 0, 20, 'LANDED', '', 0, 'success', 'f1', {day 3}, {day 4}, {day 4}, 6, {day 3}, {day 4}),
  (31, 70, 1, 3, 1, 0, '0badf00d', 2, 1, 'b000000000000000000000000000000000000000', 'c000000000000000000000000000000000000000', '', 0, 21, '', '', 0, '', 'f2', {day 6}, {day 6}, {day 40000}, 3, {day 6}, {day 6});

INSERT INTO merge_batch_request (id, operation_id, queue_id, batch_id, lane, cohort, version, created_at) VALUES
  (721, '00000000-0000-4000-8000-000000000001', 70, 31, 2, 0, 2, {day 2}),
  (722, '00000000-0000-4000-8000-000000000002', 70, 31, 2, 0, 2, {day 2}),
  (723, '00000000-0000-4000-8000-000000000003', 70, NULL, 2, 0, 1, {day 4}),
  (724, '00000000-0000-4000-8000-000000000004', 70, NULL, 1, 0, 1, {day 5});

INSERT INTO merge_batch_member (id, batch_id, operation_id, event, build, position, head_sha, reason, detail, created_at) VALUES
  (1, 30, '00000000-0000-4000-8000-000000000006', 1, 0, 1, '6666666666666666666666666666666666666666', '', '', {day 3}),
  (2, 30, '', 7, 1, 0, 'b000000000000000000000000000000000000000', '', '', {day 3}),
  (3, 30, '00000000-0000-4000-8000-000000000006', 2, 1, 1, '6666666666666666666666666666666666666666', '', '', {day 3}),
  (4, 30, '00000000-0000-4000-8000-000000000006', 4, 1, 1, '6666666666666666666666666666666666666666', 'LANDED', '', {day 4}),
  (5, 31, '00000000-0000-4000-8000-000000000001', 1, 0, 1, '1111111111111111111111111111111111111111', '', '', {day 6}),
  (6, 31, '00000000-0000-4000-8000-000000000002', 1, 0, 2, '2222222222222222222222222222222222222222', '', '', {day 6}),
  (7, 31, '', 7, 1, 0, 'c000000000000000000000000000000000000000', '', '', {day 6}),
  (8, 31, '00000000-0000-4000-8000-000000000001', 2, 1, 1, '1111111111111111111111111111111111111111', '', '', {day 6}),
  (9, 31, '00000000-0000-4000-8000-000000000002', 2, 1, 2, '2222222222222222222222222222222222222222', '', '', {day 6});

INSERT INTO audit (id, dedupe_key, actor, action, queue_id, operation_id, batch_id, source, detail, created_at) VALUES
  (1, 'forge:issue:901:1', 'ann', 'batch', 70, '00000000-0000-4000-8000-000000000001', 0, 'delivery 501', '', {day 2}),
  (2, 'batch:30:settle', 'batchbot', 'settle', 70, '', 30, 'round', 'SUCCEEDED LANDED', {day 4});

INSERT INTO idempotency (request_id, operation_id, expires_at, created_at) VALUES
  ('forge:issue:901:1', '00000000-0000-4000-8000-000000000001', {day 40000}, {day 2});

INSERT INTO delivery (id, host, delivery_key, event, payload, status, attempts, next_attempt_at, error, received_at, updated_at) VALUES
  (501, 'forge', 'key-done', 'issue_comment', NULL, 2, 1, {day 2}, '', {day 2}, {day 2}),
  (502, 'forge', 'key-due', 'push', '{"key":"key-due"}', 1, 1, {day 6}, 'the host is down', {day 6}, {day 6});

INSERT INTO outbox (id, kind, target, repository_id, number, payload, status, wanted, done, attempts, next_attempt_at, error, created_at, updated_at) VALUES
  (601, 1, '701', 7, 1, '{}', 1, 4, 3, 0, {day 6}, '', {day 2}, {day 6}),
  (602, 3, 'forge:issue:902:1', 7, 2, '{"body":"Hello"}', 2, 1, 1, 1, {day 2}, '', {day 2}, {day 2});
