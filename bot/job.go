package bot

import "time"

// JobOutcome is how a run of a scheduled job ended.
type JobOutcome int

// The outcomes. The zero value: the run is under way, or its process died.
const (
	JobDone    JobOutcome = iota + 1
	JobFailed             // by an error or a panic
	JobStopped            // its process was stopped, or its lock was lost, before it was done: the next tick goes on
)

// String returns the name stored in the column comment.
func (o JobOutcome) String() string { return nameOf(int(o), "DONE", "FAILED", "STOPPED") }

// JobRun is a row of job_run: the last run of a scheduled job, and by which tick it was last due. All times are the database's clock.
type JobRun struct {
	Name    string
	Tick    time.Time // the last tick that was taken, by a run or by skipping it; zero: never
	Runs    int64     // started so far; names the run
	Skipped int64     // ticks that came while a run was under way
	Started time.Time // of the last run
	Ended   time.Time // zero: it has not
	Outcome JobOutcome
	Summary string    // what it did, or why it failed
	By      string    // who had it run: an operator's login; empty: the schedule
	Version int64     // guards the next write; 0: there is no row yet
	Now     time.Time // when this was read
}
