// Package fault names the points at which a crash would hurt most: right before and right after each write of the bot, in the database and
// on the host. Before means that nothing of the write is there: the transaction is not committed, the host was not called. After means that it is
// there and nobody knows: the commit came back, the host answered, and nothing else was recorded.
//
// In an ordinary build both functions are empty and vanish. A build with the tag faultpoints reads its environment: FAULT_POINT kills the process
// with SIGKILL at a point ("before W3-claim", "after W9-land 2": the second time it comes by; several with commas between), and FAULT_LOG names a
// file to which a line is appended whenever a point is passed, so that a proof can tell which points it reached.
package fault
