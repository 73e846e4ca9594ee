// Package gitmerge builds batch branches with real git (2.38 or newer) and answers questions about histories. It implements bot.Git.
//
// The data flows through the files in this order: names.go refuses what must not reach git, mirror.go keeps one bare mirror per
// repository, fetch.go brings the target and all heads with one fetch, history.go tells which commits they add, build.go merges
// them, commit.go writes the merge commits, quarantine.go is where they lie until they are pushed, push.go sends them,
// inspect.go asks what landed, tidy.go keeps a mirror fast. git.go runs every git process.
//
// # Merging
//
// There is no checkout. Each member costs one "git merge-tree" process; the merge commits are written by this package. The same
// batch, base and members give the same commits on every instance, because identity, dates and the Batch trailer come from the
// batch row alone. (Titles are part of the members: a caller that wants the same commit again passes the same title again. Two
// git versions may detect renames differently; the commit then differs as the tree does.)
//
// A merge base is looked for by walking history, and the batch's own loose commits are slow to walk. So the left side of a merge
// is a throw-away commit {tree: the result so far, parent: the base}: its merge bases with a member are the base's. That is
// wrong if the member shares commits with a member merged before it that the target lacks (stacked requests, two requests on one
// unfinished branch); then the left side is the real tip.
//
// # What is on disk
//
// A mirror <Dir>/<name>.git holds what was fetched, under flat references refs/batchbot/<hash of the remote's name>, so that a
// branch "release" that becomes "release/1" is no conflict. What is written to a mirror is written under the lock <Dir>/<name>.lock, an
// flock(2) that git processes inherit: it is free when the last of them ended, even if this process was killed. Several instances
// may therefore share Dir. Whoever takes the lock removes the lock files of git that a crash left, and a mirror that is
// damaged is removed and made again: it is a cache. Nothing is ever pruned from a mirror, so builds read it without a lock.
//
// New objects of a build go into a quarantine folder in memory where there is room, are pushed straight from it, and vanish with
// it. A quarantine whose owner died is removed by the next New.
//
// # Trust
//
// Git runs with an environment of its own: no user or system configuration, no hooks, no prompts, no credential helpers, http(s)
// and local paths only, no redirects. Credentials travel in the environment of one process, bound to the remote's URL.
package gitmerge
