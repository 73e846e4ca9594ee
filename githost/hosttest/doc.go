// Package hosttest is the conformance suite of Git host adapters: what bot.Host and bot.Webhooks promise, asked of a living host in
// the project's own words. Every adapter passes it; what is peculiar to one host is tested beside its adapter.
//
// An adapter's test implements World and calls Run, and Fragile for RunTroubles. The suite knows no wire format: it says what people do and asks what the
// adapter then sees, and lets the adapter act and asks what people then see.
package hosttest
