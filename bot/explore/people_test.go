package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// What people do, at any moment. Each function does one thing if it can be done now, and says what it did; "" if it could not.

var deeds = []struct {
	weight int
	do     func(w *world) string
}{
	{9, (*world).openMR},
	{10, (*world).commandBatch},
	{12, (*world).approve},
	{2, (*world).withdraw},
	{4, (*world).pushMember},
	{1, (*world).closeMember},
	{3, (*world).reopenMember},
	{1, (*world).draft},
	{1, (*world).retarget},
	{2, (*world).cancel},
	{3, (*world).retry},
	{1, (*world).mergeByHand},
	{2, (*world).pushTarget},
	{1, (*world).pushBatchBranch},
	{1, (*world).deleteBatchBranch},
	{1, (*world).closeBatchMR},
	{1, (*world).reopenBatchMR},
	{1, (*world).mergeBatchMR},
	{6, (*world).resume},
	{1, (*world).pause},
	{3, (*world).landByHand},
	{1, (*world).rewind},
	{1, (*world).deleteTarget},
	{2, (*world).changeSettings},
	{1, (*world).refuseCredentials},
	{1, (*world).jumpClock},
}

// act has somebody do something.
func (w *world) act() {
	total := 0
	for _, d := range deeds {
		total += d.weight
	}
	n := w.rng.IntN(total)
	for _, d := range deeds {
		if n -= d.weight; n < 0 {
			if did := d.do(w); did != "" {
				w.log("people: %s", did)
			}
			return
		}
	}
}

// members are the merge requests that people made, as far as wanted says so.
func (w *world) members(wanted func(m *mergeRequest) bool) (*mergeRequest, bool) {
	return w.anyMR(func(m *mergeRequest) bool { return m.Author != theBot && wanted(m) })
}

func (w *world) anyMR(wanted func(m *mergeRequest) bool) (*mergeRequest, bool) {
	var found []*mergeRequest
	for _, m := range w.host.mrs {
		if wanted(m) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, false
	}
	return found[w.rng.IntN(len(found))], true
}

func isOpen(m *mergeRequest) bool { return m.State == bot.MROpen }

func isBatch(m *mergeRequest) bool { return m.Author == theBot }

// content is what somebody changes: a file of their own, now and then one that others change too, and now and then something that CI rejects.
func (w *world) content(number int) files {
	w.written++
	word := "good"
	if w.rng.IntN(w.poison) == 0 {
		word = "bad"
	}
	change := files{fmt.Sprintf("file-%d", number): fmt.Sprintf("%s %d\n", word, w.written)}
	if w.rng.IntN(5) == 0 {
		change[fmt.Sprintf("shared-%d", w.rng.IntN(2))] = fmt.Sprintf("shared %d\n", w.written)
	}
	return change
}

func (w *world) writeCommit(onto *commit, change files, more ...*commit) *commit {
	w.written++
	return w.host.git.commit(onto.files.with(change), "Ada <ada@example.org>", time.Now(), fmt.Sprintf("change %d\n", w.written), append([]*commit{onto}, more...)...)
}

func (w *world) openMR() string {
	h := w.host
	base := h.git.at(heads(target))
	if w.opened >= w.most || base == nil {
		return ""
	}
	w.opened++
	// Most begin at the target's tip, some at an older commit, some on top of somebody else's unfinished work.
	switch w.rng.IntN(6) {
	case 0:
		if len(base.parents) > 0 {
			base = base.parents[0]
		}
	case 1:
		if other, ok := w.members(isOpen); ok {
			base = h.git.commits[other.HeadSHA]
		}
	}
	branch := fmt.Sprint("change-", w.opened)
	c := w.writeCommit(base, w.content(len(h.mrs)+1))
	h.git.move(heads(branch), c.id)
	m := h.open(author, "Change "+branch, "", branch, target)
	w.comment(m, "/batch")
	if w.rng.IntN(3) > 0 {
		w.review(m, bot.ReviewApproved)
	}
	return fmt.Sprintf("open !%d at %s and want it batched", m.Number, bot.ShortSHA(m.HeadSHA))
}

func (w *world) comment(m *mergeRequest, text string) {
	w.host.lastID++
	c := bot.Comment{Kind: bot.CommentIssue, ID: w.host.lastID, Number: m.Number, Author: author, Body: text, CreatedAt: time.Now()}
	w.host.comments = append(w.host.comments, c)
	m.UpdatedAt = time.Now()
	w.host.tell(bot.Event{Kind: bot.EventComment, Number: m.Number, Comment: &c})
}

func (w *world) commandBatch() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	w.comment(m, "/batch")
	if w.asked(m) {
		w.race(e1Twice)
	}
	return fmt.Sprintf("/batch on !%d", m.Number)
}

// review has the reviewer say something; the second one approves with him where two have to.
func (w *world) review(m *mergeRequest, state bot.ReviewState) {
	m.reviews = append(m.reviews, bot.Review{By: reviewer, State: state, SHA: m.HeadSHA, Permission: bot.PermissionWrite})
	if state == bot.ReviewApproved && w.settings.Approvals.Count > 1 {
		m.reviews = append(m.reviews, bot.Review{By: second, State: state, SHA: m.HeadSHA, Permission: bot.PermissionWrite})
	}
	w.host.changed(m)
}

// approvedAt reports whether a merge request is approved at its head by so many.
func approvedAt(m mrState, wanted int) bool {
	latest := make(map[int64]bot.Review)
	for _, r := range m.reviews {
		latest[r.By.ID] = r
	}
	n := 0
	for _, r := range latest {
		switch {
		case r.State == bot.ReviewChangesRequested:
			return false
		case r.State == bot.ReviewApproved && r.SHA == m.HeadSHA:
			n++
		}
	}
	return n >= wanted
}

// asked reports whether an operation of a merge request is on its way.
func (w *world) asked(m *mergeRequest) bool {
	return slices.ContainsFunc(w.look().Operations, func(o bot.Operation) bool { return o.Number == m.Number && o.Status.Open() })
}

func (w *world) approve() string {
	again := w.rng.IntN(8) == 0
	m, ok := w.members(func(m *mergeRequest) bool {
		return isOpen(m) && approvedAt(mrState{m.MRSnapshot, m.reviews}, w.settings.Approvals.Count) == again
	})
	if !ok {
		return ""
	}
	if again {
		w.race(e1Twice)
	}
	w.review(m, bot.ReviewApproved)
	return fmt.Sprintf("approve !%d at %s", m.Number, bot.ShortSHA(m.HeadSHA))
}

func (w *world) withdraw() string {
	m, ok := w.members(func(m *mergeRequest) bool { return isOpen(m) && approvedAt(mrState{m.MRSnapshot, m.reviews}, 1) })
	if !ok {
		return ""
	}
	w.race(e3Consent)
	if w.rng.IntN(2) == 0 {
		w.review(m, bot.ReviewChangesRequested)
		return fmt.Sprintf("request changes of !%d", m.Number)
	}
	m.reviews[len(m.reviews)-1].State = bot.ReviewDismissed
	w.host.changed(m)
	return fmt.Sprintf("withdraw the approval of !%d", m.Number)
}

func (w *world) pushMember() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	return w.pushTo(m)
}

func (w *world) pushTo(m *mergeRequest) string {
	head, tip := w.host.git.commits[m.HeadSHA], w.host.git.at(heads(target))
	if tip == nil {
		tip = w.host.git.ordered[0]
	}
	if w.asked(m) {
		w.race(e2Push)
	}
	var c *commit
	switch {
	case w.rng.IntN(4) == 0 && !head.contains(tip): // merge the target in
		merged, conflicts := w.host.git.merge(head.files, head.past, tip.files, tip.past)
		for _, path := range conflicts { // solved in favour of the change
			merged[path] = head.files[path]
			if merged[path] == "" {
				delete(merged, path)
			}
		}
		w.written++
		c = w.host.git.commit(merged, "Ada <ada@example.org>", time.Now(), fmt.Sprintf("merge %d\n", w.written), head, tip)
	case w.rng.IntN(4) == 0: // begin anew
		c = w.writeCommit(tip, w.content(m.Number))
	default:
		change := w.content(m.Number)
		if w.rng.IntN(2) == 0 { // repaired
			change[fmt.Sprintf("file-%d", m.Number)] = fmt.Sprintf("good %d\n", w.written)
		}
		c = w.writeCommit(head, change)
	}
	w.host.git.move(heads(m.SourceBranch), c.id)
	if w.rng.IntN(3) > 0 {
		w.review(m, bot.ReviewApproved)
	}
	return fmt.Sprintf("push %s to !%d", bot.ShortSHA(c.id), m.Number)
}

func (w *world) setState(m *mergeRequest, to bot.MRState) {
	m.State = to
	if to == bot.MROpen {
		if tip := w.host.git.refs[heads(m.SourceBranch)]; tip != m.HeadSHA {
			w.host.setHead(m, tip)
		}
	}
	w.host.changed(m)
}

func (w *world) closeMember() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	w.setState(m, bot.MRClosed)
	w.race(e3Consent)
	return fmt.Sprintf("close !%d", m.Number)
}

func (w *world) reopenable(m *mergeRequest) bool {
	return m.State == bot.MRClosed && w.host.git.refs[heads(m.SourceBranch)] != ""
}

func (w *world) reopenMember() string {
	m, ok := w.members(w.reopenable)
	if !ok {
		return ""
	}
	w.setState(m, bot.MROpen)
	w.comment(m, "/batch")
	return fmt.Sprintf("reopen !%d", m.Number)
}

func (w *world) draft() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	m.Draft = !m.Draft
	w.race(e3Consent)
	w.host.changed(m)
	return fmt.Sprintf("!%d draft %v", m.Number, m.Draft)
}

func (w *world) retarget() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	if m.Target == target {
		m.Target = otherPlace
	} else {
		m.Target = target
	}
	w.race(e3Consent)
	w.host.changed(m)
	return fmt.Sprintf("retarget !%d to %s", m.Number, m.Target)
}

func (w *world) cancel() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	w.comment(m, "/batch cancel")
	return fmt.Sprintf("/batch cancel on !%d", m.Number)
}

func (w *world) retry() string {
	m, ok := w.members(isOpen)
	if !ok {
		return ""
	}
	w.comment(m, "/batch retry")
	return fmt.Sprintf("/batch retry on !%d", m.Number)
}

func (w *world) mergeByHand() string {
	m, ok := w.members(func(m *mergeRequest) bool { return isOpen(m) && m.Target == target })
	if !ok || w.host.merge(m, "person") != "" {
		return ""
	}
	w.race(e4ByHand)
	return fmt.Sprintf("merge !%d by hand", m.Number)
}

func (w *world) pushTarget() string {
	tip := w.host.git.at(heads(target))
	if tip == nil {
		return ""
	}
	w.race(e5Target)
	c := w.writeCommit(tip, files{fmt.Sprint("foreign-", w.written): fmt.Sprintf("good %d\n", w.written)})
	w.host.land("person", target, c.id)
	return "push to the target: " + bot.ShortSHA(c.id)
}

// batchBranch picks a branch of the bot.
func (w *world) batchBranch() string {
	var found []string
	for ref := range w.host.git.refs {
		if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok && strings.HasPrefix(branch, bot.BatchBranchPrefix) {
			found = append(found, branch)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return found[w.rng.IntN(len(found))]
}

func (w *world) pushBatchBranch() string {
	branch := w.batchBranch()
	if branch == "" {
		return ""
	}
	tip := w.host.git.at(heads(branch))
	c := w.writeCommit(tip, files{"meddling": fmt.Sprintf("good %d\n", w.written)})
	w.host.git.move(heads(branch), c.id)
	w.race(e9BatchMR)
	return "push " + bot.ShortSHA(c.id) + " to " + branch
}

func (w *world) deleteBatchBranch() string {
	branch := w.batchBranch()
	if branch == "" {
		return ""
	}
	w.host.git.move(heads(branch), "")
	w.race(e9BatchMR)
	return "delete " + branch
}

func (w *world) closeBatchMR() string {
	m, ok := w.anyMR(func(m *mergeRequest) bool { return isBatch(m) && isOpen(m) })
	if !ok {
		return ""
	}
	m.ClosedBy = reviewer.Login
	w.setState(m, bot.MRClosed)
	w.race(e9BatchMR)
	return fmt.Sprintf("close the batch MR !%d", m.Number)
}

func (w *world) reopenBatchMR() string {
	m, ok := w.anyMR(func(m *mergeRequest) bool { return isBatch(m) && w.reopenable(m) })
	if !ok {
		return ""
	}
	m.ClosedBy, m.reopened = "", true
	w.setState(m, bot.MROpen)
	w.race(e9BatchMR)
	return fmt.Sprintf("reopen the batch MR !%d", m.Number)
}

func (w *world) mergeBatchMR() string {
	m, ok := w.anyMR(func(m *mergeRequest) bool { return isBatch(m) && isOpen(m) && m.Target == target })
	if !ok || w.host.merge(m, "person") != "" {
		return ""
	}
	w.race(e9BatchMR)
	return fmt.Sprintf("merge the batch MR !%d by hand", m.Number)
}

// batchMR is the MR of a batch, also when its number is not recorded.
func (w *world) batchMR(b bot.Batch) *mergeRequest {
	for _, m := range w.host.mrs {
		if isBatch(m) && m.SourceBranch == b.Branch(target) {
			return m
		}
	}
	return nil
}

// landByHand has a person do what a batch that lands manually waits for, or refuse it.
func (w *world) landByHand() string {
	for _, b := range w.look().Batches {
		m := w.host.mr(b.MRNumber)
		if b.Status != bot.BatchRunning || b.Code != bot.CodeManual || m == nil || !isOpen(m) {
			continue
		}
		w.counts.manual++
		if !w.quiet && w.rng.IntN(4) == 0 {
			m.ClosedBy = reviewer.Login
			w.setState(m, bot.MRClosed)
			return fmt.Sprintf("close the batch MR !%d instead of merging it", m.Number)
		}
		if w.host.merge(m, "person") == "" {
			return fmt.Sprintf("merge the batch MR !%d, which waited for it", m.Number)
		}
	}
	return ""
}

func (w *world) resume() string {
	if w.look().Queues == nil {
		return ""
	}
	changed, err := w.operator.ResumeQueue(w.t.Context(), w.look().Queues[0].ID, "ops")
	if err != nil || !changed {
		return ""
	}
	return "resume the queue"
}

func (w *world) pause() string {
	if w.look().Queues == nil {
		return ""
	}
	changed, err := w.operator.PauseQueue(w.t.Context(), w.look().Queues[0].ID, "ops", "for a while")
	if err != nil || !changed {
		return ""
	}
	return "pause the queue"
}

// deliver hands webhooks to the bots: late, in any order, twice, never.
func (w *world) deliver() {
	w.post = append(w.post, w.takeEvents()...)
	if len(w.post) == 0 {
		return
	}
	i := 0
	if w.rng.IntN(3) == 0 {
		i = w.rng.IntN(len(w.post)) // out of order
	}
	letter := w.post[i]
	odd := e8Hooks
	if letter.event.Kind == bot.EventChecks {
		odd = e7CI
	}
	if i > 0 {
		w.race(odd)
	}
	fate := w.rng.IntN(100)
	switch {
	case w.quiet || fate < 70:
		w.handOver(i, false)
	case fate < 70+w.lossy:
		w.post = slices.Delete(w.post, i, i+1)
		w.counts.lost++
		w.race(odd)
		w.log("webhook %s %s is lost", letter.key, kindName(letter.event.Kind))
	default:
		w.race(odd)
		w.handOver(i, true)
	}
}

// handOver gives a webhook to one of the bots; again: it will come a second time.
func (w *world) handOver(i int, again bool) {
	letter := w.post[i]
	if !again {
		w.post = slices.Delete(w.post, i, i+1)
	}
	awake := slices.DeleteFunc(slices.Clone(w.instances), func(in *instance) bool { return in == nil || in.isDead() || in.asleep })
	if len(awake) == 0 {
		return // nobody answers; the host does not try again
	}
	in := awake[w.rng.IntN(len(awake))]
	payload, err := json.Marshal(letter.event)
	if err != nil {
		panic(err)
	}
	struck := none
	if !w.quiet && w.rng.IntN(4*w.faulty) == 0 {
		struck = []fault{dieBefore, dieAfter, errAfter, sleeps, serverBefore}[w.rng.IntN(5)]
		w.strike(in, w1Delivery, struck)
	}
	switch struck {
	case dieBefore, sleeps, serverBefore: // no answer; the host does not try again
		w.log("webhook %s to %s%s", letter.key, in, struck)
		return
	case errAfter:
		if !again {
			w.post = append(w.post, letter)
		}
	}
	fresh, err := w.operator.InsertDelivery(w.t.Context(), hostName, letter.key, "event", payload)
	w.log("webhook %s %s !%d to %s: fresh %v %v", letter.key, kindName(letter.event.Kind), letter.event.Number, in, fresh, err)
	if struck == dieAfter {
		in.kill()
		return
	}
	in.nudge(inboxLoop)
}

// letter is a webhook on its way.
type letter struct {
	key   string
	event bot.Event
}

func kindName(k bot.EventKind) string {
	return []string{"?", "comment", "merge request", "checks", "branch", "installation", "repository"}[k]
}

func (w *world) takeEvents() []letter {
	var out []letter
	for _, e := range w.host.events {
		w.sent++
		out = append(out, letter{fmt.Sprint("d", w.sent), e})
	}
	w.host.taken += len(w.host.events)
	w.host.events = nil
	return out
}
