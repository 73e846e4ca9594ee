// Package bot is the core of batchbot: the words, the states and the pure decisions of landing many approved merge requests as one.
// It imports the standard library only.
//
// The data goes one way:
//
//	delivery → event → operation → request → batch → settlement → outbox
//
// Each arrow is one short transaction, keyed so that doing it twice equals doing it once. Calls to a host happen between
// transactions, never inside. The only way back is a new event or a tick.
//
// Read the files in that order: repository.go and settings.go (what there is), event.go (what a host tells us),
// operation.go and admission.go (one merge request on its way), approval.go and checks.go (when it is approved, when CI is
// green), batch.go (many riding as one), outbox.go (what is still to be said), host.go and git.go (the ports).
//
// The rooms: intake turns webhooks into operations and looks at the host periodically, command holds the grammar of the slash commands, message
// every text written for people, plan decides what to test next, round claims, builds, watches, lands and settles, outbox does what
// is to be done on the host.
//
// A webhook is a hint; the host's API is the truth. Commands are the exception: they are applied once each, in the order in
// which they were written. Expected outcomes are values; an error means that somebody has to try again.
package bot
