// Package explore plays random schedules of the whole core against every kind of failure, and looks at the invariants after every step.
//
// Three instances, each with the real round driver, intake worker, applier, look and outbox sender, share one store in memory
// (store/memory) and one host in memory. Nothing of theirs runs by itself: each call to the store, to the host or to git stops at a gate, and a
// schedule drawn from a seed says who goes on next, what time it is, which webhook arrives late, twice or never, which instance dies before or
// after a write, sleeps beyond its leases and wakes up again, what the host answers although it did the opposite, and what people do meanwhile.
// The same seed is the same schedule.
//
// After the last fault everything must come to rest within bounded time: landed, failed for its own reasons, or stopped with a reason people can read.
//
//	make explore              10,000 schedules
//	make explore SEED=4711    one of them again, step by step
//	make mutate               each guard taken away in turn: some schedule must notice
//
// The package has test files only. graph_test.go and builder_test.go are git in memory, held to the real one by git_test.go; host_test.go and
// access_test.go are the host and how an instance reaches it, people_test.go who works on it, trouble_test.go what becomes of the
// surroundings; gate_test.go is how calls are stopped and let go; instance_test.go wires the core; schedule_test.go plays, fate_test.go draws what
// strikes; invariants_test.go looks; matrix_test.go and tally_test.go count what happened where.
package explore
