// Package memory is a store whose tables are Go slices. It implements the ports that store implements, with what the ports rest on in a database:
// unique keys whose violation is an answer, guarded writes that count the rows they met, versions, and transactions that take effect as
// a whole or not at all. Several Stores opened on one Database are several instances.
//
// It exists for exploring schedules: a transaction costs a microsecond, and a Seam stands before and after every one, where a schedule can
// change over to another instance, or end this one. What lies between two transactions of one call is therefore explored too: what was read outside
// may have changed when the transaction begins. Inside a transaction there is nothing to interleave: transactions run one after the
// other, as they do in SQLite. What READ COMMITTED makes of their statements is shown on real servers, by storetest.
//
// The rules are written a second time here, and a second time can be wrong: the tests hold every call's answer and every row of every table to what
// SQLite says, step by step over random sequences of calls.
package memory
