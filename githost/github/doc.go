// Package github is the adapter for GitHub, github.com and GitHub Enterprise Server alike: it implements bot.Host and bot.Webhooks.
//
// # Reading order
//
// host.go makes a Host and its clients; webhook.go and event.go turn deliveries into events; mergerequest.go, approval.go, checks.go,
// repository.go, rules.go read; status.go, batchmr.go, comment.go write; gitaccess.go gives git its way in; errors.go decides what an answer
// means. The wire types are go-github's where it knows the endpoint, and small private ones where it does not know enough.
//
// # What GitHub does that the code answers to
//
//   - A merge call can look successful without having merged. Only a pull request that is read and says merged counts (batchmr.go).
//   - A list of pull requests never says "merged"; a closed one in it is read again (mergerequest.go).
//   - A renamed repository redirects reads, and turns a write into a read. Writes are never redirected; the repository is looked up
//     by its id and the call made once more (errors.go).
//   - A token may end before its time. A call refused for its credentials is made once more with a new token; only the refusal of that
//     one says what ended (errors.go).
//   - Git needs less than the API does. It gets a token for one repository, to push and, if granted, to touch workflows (gitaccess.go).
//   - Check runs belong to Apps and commit statuses to anybody; the bot's own status is the one its credentials can write (status.go).
//   - Whoever was just told of an object by a webhook may be told "not found" by the API for a moment (mergerequest.go).
//   - The combined status of a commit without statuses is "pending"; check runs are kept elsewhere (checks.go).
//   - The rules of a branch hold types no library knows yet; they are read as raw JSON (checks.go).
//   - An App acts through one installation per account. Every installation has its own transport and client, because the token
//     source is not safe to share and a limit on one must not stop the others (host.go).
package github
