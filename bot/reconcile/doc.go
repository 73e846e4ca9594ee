// Package reconcile compares the rows with the host, says where they differ, and mends what can be mended.
//
// The bot finds most differences by itself: events tell of them, the periodic look and the rounds find what no event told. Reconcile looks at
// everything once more, from the other side, and at what nobody looks at otherwise: branches and merge requests of batches that are
// over, a target that moved backwards, comments somebody deleted, what was given up. In a bot that is well it finds nothing.
//
// Find only reads. Mend changes nothing by itself: it has the same code do it that would have done it in time, so every write is guarded and
// audited as ever: the applier moves operations and repositories, a tick of the queue carries on with its batch, the outbox says and clears
// away. Doing it twice, or while instances are at work, equals doing it once. What nobody can mend but a person is only reported.
package reconcile
