package storetest

import "testing"

// CheckInvariants fails the test unless the tables hold what they must hold at every moment. They may be in use meanwhile.
func CheckInvariants(t testing.TB, db Database) {
	t.Helper()
	w := &world{TB: t, Database: db}
	w.invariants()
}
