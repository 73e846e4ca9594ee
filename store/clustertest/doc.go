// Package clustertest lets tests use a real MySQL group of three nodes with a single primary, and break it: `make test-cluster` starts one
// (scripts/with-cluster.sh) and restarts what a test kills.
//
// The tests reach the group as the bot does in production, through one address that leads to the primary of the moment: Front, which stands in
// for MySQL Router. The nodes themselves are asked for their view of the group only.
package clustertest
