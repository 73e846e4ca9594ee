// Package train lets scheduled departures with limited seats come and go.
//
//	Keeper.Tick    what is to be done about trains now, on any instance and any number of them: opens the next departure of every train the
//	               repository files name, brings open ones in line with their file, and lets those that are due depart.
//	Keeper.Open    the same for one queue whose trains somebody wants to board before the next tick.
//	Keeper.Create, Keeper.Change    an operator's word.
//
// A departure first looks at the merge request of every live seat on the host, so that who is approved is what the host says at that moment, and
// whoever was pushed to or closed unnoticed has lost the seat. Then one guarded transaction of the store admits, carries over and opens the next
// train: it happens once, whoever asks and how often. What was looked at is pinned by the version of each operation, so a look that was
// overtaken admits nobody. A host that does not answer postpones the departure of its own trains to the next tick and nobody else's.
//
// A paused or parked queue does not hold its trains: the departure admits, and no batch starts until the queue is open again.
//
// Times are the database's. The rows are read before the clock, so that a train which somebody else let depart is never taken for one that
// departs too late, and moved.
package train
