// Package curated is the desk at which curated batches are drafted, submitted, approved, rejected and cancelled: hand-picked, ordered sets of
// merge requests that land together or not at all. Slash commands and the API come to the same desk.
//
// Every method does one thing and returns what became of it: nothing here runs by itself. What may fail comes before the one guarded write:
//
//	read the set at version v
//	  → every check against the host, the rows and git, not only up to the first problem
//	  → problems: they are the answer, and nothing is written
//	  → none: one write that counts only if the set still is DRAFT (or PENDING_APPROVAL) at v
//
// A refused submission therefore leaves the draft exactly as it was, and of two that pass their checks at once one wins: the other is told that
// the set was submitted already. Nothing that can fail comes behind the write.
//
// An approval repeats every check at the heads that were pinned when the set was submitted, and each member needs its own approvals at that head, by the
// policy of its queue: the approval of a set stands beside those of its members and replaces none.
//
// Read the files in the order of the data: desk.go (who asks, for what), check.go (the checks of rows), merge.go (whether they merge).
package curated
