// Package job runs what has to be done from time to time by one instance: sweep, reconcile, the departures of trains, cleaning up, reminders.
//
// Every instance has the same Scheduler, and there is no leader. A job's row holds the tick that was taken last; whoever finds, by the database's
// clock, that the next one has come takes it by a guarded write of that row and runs the job. So a tick is taken once, however many instances look
// at the same moment, how their clocks differ, and whatever became of the job's advisory lock: the lock only keeps an instance from starting a tick
// while another still works on the one before.
//
// A tick that comes while the job still runs is skipped by the instance that runs it, which says so. A tick whose process died is not made up for:
// the next one does what it left, as every job goes by what the rows say and not by what the last run did. A panic is the run's failure; a lock that
// is lost, or a process that stops, ends the run's context.
package job
