package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
)

// demoReport is the outcome of the demo, as --json prints it.
type demoReport struct {
	Repository         string        `json:"repository"`
	Target             string        `json:"target"`
	MergeRequests      []reportMR    `json:"merge_requests"`
	Landed             []int         `json:"landed"`
	Evicted            []reportEvict `json:"evicted"`
	Rejected           []reportRed   `json:"rejected"`
	WaitingForApproval []int         `json:"waiting_for_approval"`
	Train              reportTrain   `json:"train"`
	Curated            reportCurated `json:"curated"`
	Batches            []reportBatch `json:"batches"`
	CIRuns             int           `json:"ci_runs"`
	LandedEqualsTested bool          `json:"landed_equals_tested"`
	Kills              int           `json:"kills,omitempty"` // with --chaos
	ElapsedMS          int64         `json:"elapsed_ms"`

	outcomes []string // per merge request, in words
	left     [][]int  // per batch, who did not ride to the end
	graph    string
}

type reportMR struct {
	Number int    `json:"number"`
	Author string `json:"author"`
	Title  string `json:"title"`
	State  string `json:"state"` // open, closed or merged
}

type reportEvict struct {
	Number int      `json:"number"`
	Reason string   `json:"reason"`
	Files  []string `json:"files"` // in conflict
}

// reportRed is a merge request that CI failed on.
type reportRed struct {
	Number int    `json:"number"`
	Reason string `json:"reason"`
	Runs   int    `json:"runs"` // batches it made red until it was found
}

type reportBatch struct {
	ID        int64  `json:"id"`
	Status    string `json:"status"`
	Members   []int  `json:"members"` // those that rode to the end
	CI        string `json:"ci"`      // success, failure or none
	BaseSHA   string `json:"base_sha"`
	HeadSHA   string `json:"head_sha"`
	LandedSHA string `json:"landed_sha"`
}

// report looks once more and says what became of everything.
func (d *demo) report(ctx context.Context, elapsed time.Duration) (demoReport, error) {
	n, err := d.look(ctx)
	if err != nil {
		return demoReport{}, fmt.Errorf("reading the outcome: %w", err)
	}
	r := demoReport{
		Repository: demoRepository, Target: demoTarget, Landed: []int{}, Evicted: evictions(n), Rejected: rejections(n), WaitingForApproval: []int{},
		Train: trainReport(n), Curated: curatedReport(n, d.submissions), Batches: []reportBatch{}, CIRuns: len(n.ci), Kills: d.bot.killed(), ElapsedMS: elapsed.Milliseconds(),
	}
	for _, m := range n.mrs {
		if m.Number > len(demoChanges) {
			continue // the bot's own, and those of the scenes
		}
		op := n.operation(m.Number)
		r.MergeRequests = append(r.MergeRequests, reportMR{m.Number, m.Author, m.Title, m.State})
		switch {
		case m.State == "merged" && op.Status == bot.OperationMerged:
			r.Landed = append(r.Landed, m.Number)
		case op.Status == bot.OperationPendingApproval:
			r.WaitingForApproval = append(r.WaitingForApproval, m.Number)
		}
		r.outcomes = append(r.outcomes, outcome(op, r.Evicted))
	}
	git := demoGit(d.host.RepoPath(demoOwner, demoName))
	for _, b := range n.batches {
		ci := b.CIConclusion
		if ci == "" {
			ci = "none"
		}
		r.left = append(r.left, b.left())
		r.Batches = append(r.Batches, reportBatch{b.ID, b.Status.String(), b.tested(), ci, b.BaseSHA, b.HeadSHA, b.LandedSHA})
	}
	if r.LandedEqualsTested, err = landedEqualsTested(ctx, git, n); err != nil {
		return r, err
	}
	r.graph, err = git(ctx, "log", "--graph", "--format=%h %s (%an)", "--abbrev=7", demoTarget)
	return r, err
}

// evictions lists every merge request that a batch put out, with the last reason. A conflict with an earlier member of the batch is followed by one
// with the target once that member has landed; both are a conflict.
func evictions(n snapshot) []reportEvict {
	all := []reportEvict{}
	for _, b := range n.batches {
		for _, m := range b.Members {
			if (m.Event != bot.MemberEvicted && m.Event != bot.MemberFailed) || m.Reason == bot.ReasonCIRed {
				continue
			}
			e := reportEvict{Number: m.Number, Reason: string(m.Reason), Files: []string{}}
			if m.Reason == bot.ReasonConflict || m.Reason == bot.ReasonConflictBatch {
				e.Reason, e.Files = string(bot.ReasonConflict), strings.Split(m.Detail, ", ")
			}
			all = slices.DeleteFunc(all, func(old reportEvict) bool { return old.Number == m.Number })
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b reportEvict) int { return a.Number - b.Number })
	return all
}

// rejections lists the merge requests that failed because of CI.
func rejections(n snapshot) []reportRed {
	all := []reportRed{}
	for _, o := range n.operations {
		if o.Status != bot.OperationFailed || o.Reason != bot.ReasonCIRed {
			continue
		}
		r := reportRed{Number: o.Number, Reason: string(o.Reason)}
		for _, b := range n.batches {
			if b.CIConclusion == "failure" && slices.Contains(b.tested(), o.Number) {
				r.Runs++
			}
		}
		all = append(all, r)
	}
	return all
}

// landedEqualsTested compares, for every batch that landed, the tree on the target with a tree that CI found green.
func landedEqualsTested(ctx context.Context, git gitFunc, n snapshot) (bool, error) {
	landed := 0
	for _, b := range n.batches {
		if b.Status != bot.BatchSucceeded {
			continue
		}
		landed++
		trees, err := git(ctx, "rev-parse", b.HeadSHA+"^{tree}", b.LandedSHA+"^{tree}")
		if err != nil {
			return false, err
		}
		tested := false
		for _, run := range n.ci {
			tested = tested || (run.SHA == b.HeadSHA && run.Conclusion == "success")
		}
		if t := strings.Fields(trees); !tested || len(t) != 2 || t[0] != t[1] {
			return false, nil
		}
	}
	return landed > 0, nil
}

func outcome(op demoOperation, evicted []reportEvict) string {
	switch op.Status {
	case bot.OperationMerged:
		return "landed"
	case bot.OperationFailed:
		if op.Reason == bot.ReasonCIRed {
			return "out: CI fails with it"
		}
		for _, e := range evicted {
			if e.Number == op.Number {
				return "out: conflict in " + strings.Join(e.Files, ", ")
			}
		}
		return "out: " + string(op.Reason)
	case bot.OperationPendingApproval:
		if op.Reason == bot.ReasonHeadMoved {
			return "its author pushed: waits for a new approval"
		}
		return "waits for approval"
	case 0:
		return "not applied"
	}
	return strings.ToLower(op.Status.String())
}

// deviations says what is not as the story should end; nil if all is well.
func (r demoReport) deviations() error {
	var found config.Mistakes
	check := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			found = append(found, fmt.Sprintf("not as expected: %s is %s, should be %s", what, g, w))
		}
	}
	check("landed", r.Landed, numbersWith(fateLands))
	check("waiting for approval", r.WaitingForApproval, numbersWith(fateMoves, fateUnapproved))
	check("evicted", r.Evicted, []reportEvict{{numbersWith(fateConflicts)[0], "conflict", []string{priceList}}, {movingMR, "head_moved", nil}})
	var red []int
	for _, x := range r.Rejected {
		red = append(red, x.Number)
	}
	check("rejected", red, numbersWith(fateBreaks))
	joined, members := r.Train.Joined, r.Curated.Members
	if check("who joined the train", len(joined), len(trainChanges)); len(joined) == len(trainChanges) {
		check("the train", r.Train, reportTrain{Name: demoTrain, Seats: demoTrainSeats, Joined: joined, Left: joined[:1], Promoted: joined[2:3], Departed: joined[1:3],
			CarriedOver: joined[3:], Landed: joined[1:3]})
	}
	check("the curated batch", r.Curated, reportCurated{Members: members, Submissions: []reportSubmission{{200, ""}, {409, "/problems/already-submitted"}},
		Status: bot.CuratedDone.String(), Batch: r.Curated.Batch, Landed: members})
	check("members of the curated batch", len(members), len(curatedChanges))
	check("landed equals tested", r.LandedEqualsTested, true)
	if len(found) == 0 {
		return nil
	}
	return found
}

func (r demoReport) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r demoReport) writeTable(w io.Writer) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nMR\tAUTHOR\tTITLE\tON THE HOST\tOUTCOME\n")
	for i, m := range r.MergeRequests {
		fmt.Fprintf(table, "#%d\t%s\t%s\t%s\t%s\n", m.Number, m.Author, m.Title, m.State, r.outcomes[i])
	}
	fmt.Fprintf(table, "\nBATCH\tSTATUS\tMEMBERS\tLEFT IT\tCI\tLANDED AS\n")
	for i, x := range r.Batches {
		landed := "-"
		if x.LandedSHA != "" {
			landed = bot.ShortSHA(x.LandedSHA)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", x.ID, x.Status, list(x.Members), list(r.left[i]), x.CI, landed)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	same := "What landed is what CI tested."
	if !r.LandedEqualsTested {
		same = "What landed is NOT what CI tested."
	}
	fmt.Fprintf(&b, "\n%d merge requests landed, in %.1fs. %s\n", len(r.Landed)+len(r.Train.Landed)+len(r.Curated.Landed), float64(r.ElapsedMS)/1000, same)
	fmt.Fprintf(&b, "CI ran %d times", r.CIRuns)
	for _, x := range r.Rejected {
		fmt.Fprintf(&b, "; #%d made %d batches red until it was found", x.Number, x.Runs)
	}
	b.WriteString(".\n")
	fmt.Fprintf(&b, "%s\n%s\n", r.Train.told(), r.Curated.told())
	if r.Kills > 0 {
		fmt.Fprintf(&b, "Meanwhile batchbot was killed %d times.\n", r.Kills)
	}
	fmt.Fprintf(&b, "\ngit log --graph %s\n%s", r.Target, r.graph)
	_, err := io.WriteString(w, b.String())
	return err
}

// gitFunc runs git in one repository and returns what it prints.
type gitFunc func(ctx context.Context, args ...string) (string, error)

// demoGit runs git without anybody's configuration.
func demoGit(path string) gitFunc {
	return func(ctx context.Context, args ...string) (string, error) {
		c := exec.CommandContext(ctx, "git", append([]string{"--git-dir", path}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C")
		out, err := c.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
		}
		return string(out), err
	}
}
