// Package fakehost is a living Git host: real bare git repositories served
// over smart HTTP, the host's REST API on top of them, and signed webhooks.
// It is a world, not a script: nothing answers from a recording. A push moves
// the head of its merge request, a merge is a real merge commit, and a merge
// request reads merged because its head became reachable, as on the real host.
//
// # The world and its face
//
// The world (users, repositories, merge requests, reviews, permissions,
// comments, statuses, CI runs, webhooks) is in host.go, world.go, mr.go,
// talk.go, refs.go, protect.go, ci.go, apps.go, git.go and deliver.go and speaks
// the project's own words. A face puts it on the wire: the github*.go files hold
// GitHub's routes, JSON shapes and webhook payloads, the gitlab*.go files
// GitLab's; Options.Face says which of them a host is. A face reads the world
// and calls its verbs. GitLab's also keeps what only a GitLab knows: the gl
// fields of a repository, merge request and status, and what it does later.
//
// One mutex guards the world. It is held across git child processes, so every
// verb and every request is atomic; it is never held while a webhook is
// delivered or a hook of the caller runs.
//
// # Where state comes from
//
// The refs on disk are the truth. Before anything reads or changes a
// repository, its branches are compared with those last seen (scan, in
// refs.go), and every difference becomes what a push means: a push event,
// heads that move, merge requests that read merged or closed, CI that starts.
// So a git push by local path (RepoPath), which no handler sees, counts from
// the next request on; its author is taken to be the bot.
//
// As GitHub documents, a merge request other than the one merged turns merged
// by reachability only where the repository's default branch receives its
// head; Options.IndirectMergeEverywhere lifts that. base.sha of a merge
// request is the tip of its base when its head last moved, not the tip now.
//
// # GitLab
//
// The world's verbs mean the same on both; where the hosts differ in what
// follows, GitLab's way is taken. Review gives an approval, its words become a
// note; Dismiss takes it back as whoever gave it. A draft has "Draft: " before
// its title. Lines of a comment that are quick actions GitLab knows are done and
// taken out. Rules.RequiredChecks are external status checks of a protected
// branch (without a paid tier: a pipeline that succeeds), RequiredApprovals an
// approval rule, DismissStale the project's reset of approvals on a push, which
// comes GitLab.ResetAfter later. A push marks the merge requests it brought in,
// on any branch, GitLab.MarkAfter later, but not those whose fork is gone
// (DeleteFork). Negative times wait for RunJobs. A merge request whose branch is
// deleted stays open. CI is a pipeline with the job "ci"; a status from elsewhere
// joins the newest pipeline of its commit, or makes one. Issues and merge
// requests share their numbers here, which on a GitLab they do not.
//
// An installed repository is a project with the bot as a Maintainer and with one
// webhook, that of Options.WebhookURL and WebhookSecret; more are made by the
// API. With GitLab.AutoDisable four failures in a row stop a hook for a while.
// The names of detailed_merge_status that pass by themselves come from
// GitLab.Transient, one a look, or are held by SetMergeStatus.
//
// # What goes wrong
//
// Break takes rules, each saying which calls or webhooks go wrong, how and how
// often: answers of trouble, limits of every form, redirects, connections that
// end or never answer, all before or after the effect; a world that lags behind
// itself; webhooks that are lost, doubled, late or overtaken. Heal ends them. They
// lie in front of both faces and of git over HTTP; control cannot be broken.
//
// What a real team does to a repository is no fault but a verb: Rename, Transfer,
// SetArchived, Delete, Suspend, Uninstall; rules of a branch (Rules), of every push
// (PushRules) and what the App was granted (SetAppPermission). An App without the
// workflows permission pushes no change of a workflow file; that is the default.
//
// # Two forms
//
// As a server, Handler serves REST below / and /api/v3/, GraphQL at /graphql,
// git at /owner/name.git (a GitLab: REST below /api/v4/, owners of several parts) and the control endpoints at /_fakehost/ (loopback
// clients only; see Client). Without sockets, RoundTripper calls the same
// handler in the calling goroutine, git goes by RepoPath, and webhooks leave by
// Options.Deliver (Delivery.Hook tells hooks apart); that form works inside a testing/synctest bubble: time comes
// from time.Now and time.AfterFunc (so CIDelayed follows the bubble's clock),
// the only wait on the outside world is for git child processes, which hold the
// clock still, and Close ends the one goroutine. Smart HTTP needs real sockets
// and stays outside a bubble.
//
// # Who is who
//
// A user's token is the login followed by "-token", for REST and for git.
// On a GitLab the bot is such a user, of a group access token.
// On a GitHub the bot is a GitHub App: an RS256 JWT buys installation tokens that expire
// after an hour. Repositories are public unless said otherwise.
package fakehost
