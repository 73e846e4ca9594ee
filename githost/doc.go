// Package githost holds what the adapters of Git hosts share and nothing that knows a particular host.
//
// An HTTP request of an adapter passes, from the outside in:
//
//	NewClient   follows redirects of reads on the same host only, refuses all others
//	Breaker     per host: calls about a repository, or to a host, that fail again and again are held back
//	Polite      per credential: one write at a time, a pause between writes, silence while the host asks for one,
//	            conditional reads
//	(auth)      the adapter's own: an App's installation token, a personal token
//	Wire        per host: the only origin tokens may go to, a time limit, a size cap, the user agent; turns every way
//	            a host says "slow down" into bot.RateLimitedError
//
// Client libraries keep rate-limit bookkeeping of their own, which can block a whole client for an hour or not notice at all. Here
// the pause is an error that the transport itself returns, so no library sees a rate-limited answer; Polite also hides the
// headers such bookkeeping lives on.
//
// Nothing here retries. Whoever called knows whether the call may be repeated, and what to read before repeating it.
package githost
