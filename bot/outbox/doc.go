// Package outbox does what is still to be done or said on the host.
//
// An errand is a projection: it says that something is to be said, and the sender renders it from the rows as they are when it
// runs. Order and repetition therefore do not matter. Every comment carries a hidden marker of its own, so that a sender that
// died after writing is followed by one that finds the comment and edits it instead of writing a second one.
//
// Errands fail one by one: what a host refuses for good is given up with its reason, which operators see; what it asks to put off is put
// off by as much; everything else is tried again with growing pauses, and given up in the end.
package outbox
