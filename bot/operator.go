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

// BatchOverview is a batch as an operator sees it in a list.
type BatchOverview struct {
	Batch      Batch
	Queue      Queue
	Repository Repository
	Riding     int // members in it now; 0 when it is over
}

// QueueName is how operators name the queue of the batch: "HOST/owner/name:branch".
func (b BatchOverview) QueueName() string {
	return QueueOverview{Queue: b.Queue, Repository: b.Repository}.Name()
}

// BatchFilter narrows a list of batches.
type BatchFilter struct {
	QueueID int64 // 0 = of all queues
	Active  bool  // RUNNING and BLOCKED only
	Limit   int   // at most so many, newest first; 1 or more
}

// OperatorWord is what an operator says about a batch.
type OperatorWord string

// The words.
const (
	WordMerged OperatorWord = "merged" // it landed: record it
	WordFailed OperatorWord = "failed" // it did not and will not: give its members back
	WordResume OperatorWord = "resume" // go on with it, with its whole time again
)

// OperatorOrder is an operator's word about one active batch. It is held against what the host and the target say: a word that they
// contradict is refused.
type OperatorOrder struct {
	BatchID int64
	Word    OperatorWord
	Unblock bool   // only while the batch is BLOCKED
	Force   bool   // also where the host cannot be asked, or says neither yes nor no
	DryRun  bool   // say what would be done, and write nothing
	By      string // login, for the audit
	Source  string // delivery, or "cli"
}

// OperatorAnswer is what became of an OperatorOrder.
type OperatorAnswer struct {
	Done bool   // false: refused, nothing was written
	Text string // for people: what was done, or why not and what to do; plain, without a final stop
}
