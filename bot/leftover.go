package bot

import "time"

// EndedBatch is a batch that is over, with what is still known to be open about it.
type EndedBatch struct {
	Batch      Batch
	LandedLate bool // it was recorded that its MR was merged after all
	BranchDue  bool // its branch is about to be deleted
	MRDue      bool // its MR is about to be looked at again
}

// GivenUpErrand is an errand that was given up, with why.
type GivenUpErrand struct {
	Errand Errand
	Reason string
	Age    time.Duration // since it was given up
}

// FailedDelivery is a delivery that was given up, with why. Its payload is left out.
type FailedDelivery struct {
	Delivery Delivery
	Reason   string
	Age      time.Duration // since it came
	Purged   bool          // its payload is gone: there is nothing to apply any more
}
