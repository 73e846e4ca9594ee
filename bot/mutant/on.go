//go:build mutate

package mutant

import "sync/atomic"

var gone atomic.Value // Guard

// Take takes a guard away, and puts the one taken before back; empty only puts it back.
func Take(g Guard) { gone.Store(g) }

// Is reports whether a guard is taken away.
func Is(g Guard) bool { return gone.Load() == g }
