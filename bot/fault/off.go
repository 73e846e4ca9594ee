//go:build !faultpoints

package fault

// Before marks the moment before a write.
func Before(Write) {}

// After marks the moment after a write.
func After(Write) {}
