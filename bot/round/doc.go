// Package round is the loop of one queue. It claims the waiting set, has the batch branch built, opens the batch MR, watches CI, lands and settles.
//
// A tick is look → pure decision → one action, and then looks again. RunOnce is one tick, synchronous; Run is the dull loop around
// it: a nudge means soon, the timer is the safety net. Ticks of one queue are kept apart by an advisory lock that saves work;
// what is correct rests on the guarded writes alone, so a lost lock costs a wasted call and nothing else.
//
// The phase of the batch row is the last durable step, so any instance continues from the rows:
//
//	CLAIMED ─ build, record base and head, push ─→ BUILT ─ find or open the batch MR ─→ OPENED ─ CI green, members
//	   ↑                                             |                                 |        looked at again
//	   |                                             |                                 ↓
//	   └── evicted, target moved ────────────────────┴───────────────────────────── LANDING ─→ settlement
//
// What is about to be done on the host is written before it is done: the head before the push, LANDING before the merge, the
// code of a failure before its MR is closed. A crash between the two leaves an intent, which the next tick carries on; each host
// call is findable again by branch name and recorded heads.
//
// LANDING is the point of no return. It ends by what the host and the target say and by nothing else: landed, the target moved without
// the batch, an answered refusal, or a closed batch MR whose head the target does not contain. An unanswered call leaves it.
//
// A batch that is over never changes. Its MR may: reopened, it is closed again; merged after all, it has landed late, and that is recorded beside
// the batch.
//
// An operator's word about a batch goes the same way as a tick: look, decide, one guarded write. It is held against what the host and the target say.
//
// Read the files in the order of the data: ports.go, driver.go (the loop), look.go (host and rows → view), decide.go (view →
// action, pure), act.go, refusal.go and settle.go (the actions), late.go (what landed against expectation), operator.go.
package round
