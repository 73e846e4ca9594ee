package bot

// QueueOverview is a queue as an operator sees it.
type QueueOverview struct {
	Queue           Queue
	Repository      Repository
	Waiting         int    // requests no batch has claimed
	PendingApproval int    // operations that wait for an approval
	Batch           *Batch // the active batch, nil when the slot is free
}

// Name is how operators name the queue: "HOST/owner/name:branch".
func (q QueueOverview) Name() string {
	return q.Repository.Host + "/" + q.Repository.Path + ":" + q.Queue.Target
}
