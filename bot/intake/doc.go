// Package intake turns webhooks into operations.
//
//	Handler   one webhook in: cap, authenticate, store, answer. No host call, nothing parsed but headers.
//	Worker    claims stored deliveries, lets the host's adapter read them as neutral events, and applies those.
//	Applier   events → rows. Comments are commands; everything else is a hint to read the host again.
//	Looker    the periodic look: what no webhook told. It goes through the same Applier, so it cannot disagree with it.
//
// A command is handled once, whoever sees it first: its request id is stored in the transaction of what it does or of what is
// answered to it. All calls to a host that may fail come before that transaction, so a crash or an error anywhere before it
// merely makes the delivery, or the next look, do the same again.
//
// Deliveries of one merge request that are claimed together are applied in order of arrival; others side by side, and none waits for one
// that fails. Between instances and retries the order of commands is kept by the rows, see bot.CommandOrder.
package intake
