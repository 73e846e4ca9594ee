package bot

import "time"

// RepositorySettings is what the repository file .batchbot.yml on a target branch says. config parses and validates it.
type RepositorySettings struct {
	Queues []QueueSettings
}

// Queue returns the settings of the queue for branch.
func (s RepositorySettings) Queue(branch string) (QueueSettings, bool) {
	for _, q := range s.Queues {
		if q.Branch == branch {
			return q, true
		}
	}
	return QueueSettings{}, false
}

// QueueSettings configures one queue. It is stored with the queue's row as JSON.
type QueueSettings struct {
	Branch       string         `json:"branch"`
	MaxBatchSize int            `json:"max_batch_size"` // 1 to 1000 members
	FillWait     time.Duration  `json:"fill_wait"`      // how long the oldest waiting request may wait for company
	FlakeRate    float64        `json:"flake_rate"`     // how often CI fails on a good tree, 0 to 0.2, until the queue's own history says
	Landing      Landing        `json:"landing"`
	Approvals    ApprovalPolicy `json:"approvals"`
	Checks       CheckPolicy    `json:"checks"`
	Timeout      time.Duration  `json:"timeout"` // from claim or build to settlement
	Trains       []TrainPlan    `json:"trains,omitempty"`
	Reminders    ReminderPolicy `json:"reminders,omitzero"`
}

// TrainPlan says when a train departs and how many it takes.
type TrainPlan struct {
	Name           string        `json:"name"`
	Schedule       string        `json:"schedule"`        // five fields of cron: minute, hour, day of month, month, day of week
	TimeZone       string        `json:"time_zone"`       // IANA name the schedule is read in; empty: UTC
	Seats          int           `json:"seats"`           // 0 to MaxSeats
	BoardingCloses time.Duration `json:"boarding_closes"` // so long before the departure; 0: with it
}

// ReminderPolicy says when people are reminded in the thread. The zero value reminds nobody.
type ReminderPolicy struct {
	Approvers time.Duration `json:"approvers"` // after so long in PENDING_APPROVAL; 0: never
	Owners    time.Duration `json:"owners"`    // after so long FAILED, or in a batch that is BLOCKED; 0: never
	Every     time.Duration `json:"every"`     // and again each time so much has passed; 0: once
	Quiet     QuietHours    `json:"quiet,omitzero"`
}

// QuietHours is when nobody is reminded: what falls due then is said when they end. From equal to To: there are none.
type QuietHours struct {
	From     time.Duration `json:"from"` // since midnight
	To       time.Duration `json:"to"`   // since midnight; before From: they run over midnight
	TimeZone string        `json:"time_zone"`
	Weekends bool          `json:"weekends"` // Saturdays and Sundays are quiet as a whole
}

// Landing is how a tested batch reaches its target.
type Landing string

// The ways to land.
const (
	LandByMerge  Landing = "merge"  // the host's merge API with the head-SHA guard
	LandByPush   Landing = "push"   // the tested commit is fast-forwarded onto the target
	LandManually Landing = "manual" // a person merges the batch MR
)

// ApprovalPolicy says when a merge request is approved.
type ApprovalPolicy struct {
	Count   int        `json:"count"`   // approvals needed, 0 to 100
	Minimum Permission `json:"minimum"` // least permission whose approval counts
}

// WithoutChecks says what to do with a batch head on which no check ever appears.
type WithoutChecks string

// The answers to a missing CI.
const (
	WithoutChecksWait WithoutChecks = "wait" // until the batch's timeout, then NO_CI
	WithoutChecksPass WithoutChecks = "pass" // land untested by CI
)

// CheckPolicy says which checks decide about a batch head.
type CheckPolicy struct {
	Required  []string      `json:"required"`   // names; empty: what the host requires, else everything seen
	NoneAfter time.Duration `json:"none_after"` // grace period before "no CI" is concluded
	None      WithoutChecks `json:"none"`
	QuietTime time.Duration `json:"quiet_time"` // without required checks: none new for this long
}

// DefaultQueueSettings is a queue without a repository file: one approval by somebody with write access, merge landing,
// every check seen on the head, fifty members at most, CI that fails for nothing once in a hundred runs, two hours; approvers are reminded after three days,
// owners after one, and each once a week.
func DefaultQueueSettings(branch string) QueueSettings {
	return QueueSettings{
		Branch:       branch,
		MaxBatchSize: 50,
		FlakeRate:    0.01,
		Landing:      LandByMerge,
		Approvals:    ApprovalPolicy{Count: 1, Minimum: PermissionWrite},
		Checks:       CheckPolicy{NoneAfter: 5 * time.Minute, None: WithoutChecksWait, QuietTime: 30 * time.Second},
		Timeout:      2 * time.Hour,
		Reminders:    ReminderPolicy{Approvers: 72 * time.Hour, Owners: 24 * time.Hour, Every: 7 * 24 * time.Hour},
	}
}
