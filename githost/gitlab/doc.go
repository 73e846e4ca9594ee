// Package gitlab is the adapter for GitLab, gitlab.com and self-managed alike: it implements bot.Host and bot.Webhooks.
//
// # Reading order
//
// host.go makes a Host and its client; webhook.go and event.go turn deliveries into events; mergerequest.go, approval.go, checks.go,
// repository.go, rules.go read; status.go, batchmr.go, comment.go, hook.go write; gitaccess.go gives git its way in; errors.go decides what
// an answer means. The wire types are go-gitlab's where it knows the endpoint, and small private ones where it does not know enough:
// it is frozen, so nothing outside this package may see it.
//
// # What GitLab does that the code answers to
//
//   - A project is addressed by its numeric id, which survives renames and moves: no request is ever redirected, and one that is gets
//     refused, so that the token goes nowhere (host.go).
//   - A merge call can look successful without having merged, and says "not now", "never" and "not you" with the same statuses. Only a
//     merge request that is read again tells (batchmr.go).
//   - An approval names no commit. Whether it is for the head follows from times, and from whether pushes take approvals away (approval.go).
//   - Pushes take approvals away some seconds late. Until then nobody has approved (approval.go).
//   - The jobs of all pipelines of a commit are listed together with statuses from outside, and our own status may be what keeps a
//     pipeline from being finished (checks.go).
//   - A pipeline of merged results runs on a commit of its own (checks.go).
//   - There is no list of a project's comments. Who was commented on is found by what was updated (comment.go).
//   - A line that begins with a slash is an order to GitLab, also in what we write (comment.go).
//   - Four refused deliveries silence a hook: what is not ours is answered, never refused (webhook.go).
//   - Every 404 looks the same: no such thing, no such project, not to be seen, not in this edition (errors.go).
package gitlab
