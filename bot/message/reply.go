package message

import (
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// Help lists the commands.
func Help() string {
	return `Write a command on a line of its own in a comment or a review:

| command | what it does |
|---|---|
| ` + "`/batch`" + ` | applies this merge request: once approved, it lands with the next batch of its target branch |
| ` + "`/batch cancel`" + ` | takes it out again |
| ` + "`/batch retry`" + ` | tries a failed one again, at the same commit |
| ` + "`/batch status`" + ` | says where it stands |
| ` + "`/batch join`" + `, ` + "`/batch join NAME`" + ` | takes a seat on the next train of its target branch, or a place in line; it lands after the departure |
| ` + "`/batch leave`" + ` | gives the seat up; the first in line moves up |
| ` + "`/batch with #12 #15`" + ` | drafts a curated batch: this merge request and those land together or not at all |
| ` + "`/batch submit`" + ` | checks the draft, and hands it in at the commits its members have now |
| ` + "`/batch approve`" + ` | lets it go (with write access, and not by whoever drafted it) |
| ` + "`/batch unblock merged`" + `, ` + "`failed`" + ` or ` + "`resume`" + ` | on a blocked batch or one of its members: it landed; it did not; go on with it (maintainers) |
| ` + "`/batch help`" + ` | shows this table |

The author of a merge request and everybody with write access may do so, where nobody else is named. Editing an old comment is not a command.
`
}

// Outsider refuses a command of somebody who may not give it.
func Outsider(login string) string {
	return fmt.Sprintf("Sorry, %s: only the author of a merge request and people with write access may give commands here. "+
		"Ask one of them to comment `/batch`.\n", inline(login, 60))
}

// NotMergeRequest refuses a command on a plain issue.
func NotMergeRequest() string {
	return "This is not a merge request, so there is nothing to land. Comment `/batch` on a merge request instead.\n"
}

// BatchMRCommand refuses a command on a batch MR.
func BatchMRCommand() string {
	return "This is a batch, made by the bot: it lands by itself once CI is green. Comment `/batch` on one of its members instead.\n"
}

// Refused refuses an application because of an obstacle as bot.Obstacle words it.
func Refused(obstacle string) string {
	return "This merge request cannot be applied: " + detail(obstacle) + ".\n"
}

// NoQueue refuses an application to a branch without a queue; branches are those that have one.
func NoQueue(target string, branches []string) string {
	s := "The branch " + code(target) + " has no queue. "
	if len(branches) == 0 {
		return s + "A maintainer can add one in the file `.batchbot.yml` on that branch.\n"
	}
	names := make([]string, 0, len(branches))
	for i, branch := range branches {
		if i == 20 {
			names = append(names, fmt.Sprintf("%d more", len(branches)-i))
			break
		}
		names = append(names, code(branch))
	}
	return s + "Branches with a queue: " + strings.Join(names, ", ") +
		". Change the target of this merge request, or ask a maintainer to add the branch to the file `.batchbot.yml` on that branch.\n"
}

// NoTarget refuses an application to a branch that is not there.
func NoTarget(target string) string {
	return "The branch " + code(target) + " does not exist at the moment, so nothing can land on it. Restore it, or change the target, and comment `/batch` again.\n"
}

// BadSettings refuses an application because the repository file cannot be used and there are no earlier settings.
func BadSettings(target, problem string) string {
	return "The file `.batchbot.yml` on " + code(target) + " cannot be used: " + sentence(detail(problem)) + " Mend it there and comment `/batch` again.\n"
}

// KeptSettings notes that a broken repository file is ignored.
func KeptSettings(target, problem string) string {
	return "Note: the file `.batchbot.yml` on " + code(target) + " cannot be used, so the queue keeps its last good settings: " + sentence(detail(problem)) + "\n"
}

// Unsuitable refuses a target on which no batch can land as it was tested; obstacle is bot.LandingObstacle's.
func Unsuitable(target, obstacle string) string {
	return fmt.Sprintf("Batches cannot land on %s: %s Then comment `/batch` again.\n", code(target), sentence(detail(obstacle)))
}

// Superseded answers a command that came after a later one of the same merge request was carried out.
func Superseded() string {
	return "A later command on this merge request was carried out already, so this one changes nothing.\n"
}

// AlreadyActive answers an application of a merge request that is on its way.
func AlreadyActive(view bot.OperationView, links Links) string {
	return "It is on its way already: " + sentence(state(view, links)) + "\n"
}

// NeedsRetry answers a plain application of a failed merge request.
func NeedsRetry(view bot.OperationView, links Links) string {
	return upper(sentence(state(view, links))) + " Push a fix, or comment `/batch retry` to try the same commit again.\n"
}

// AlreadyLanded answers an application of a merge request that landed at this very commit.
func AlreadyLanded(view bot.OperationView, links Links) string {
	return "Nothing to do: " + sentence(state(view, links)) + "\n"
}

// NothingToCancel answers a cancel without an operation on its way; view is the last one, nil if there never was one.
func NothingToCancel(view *bot.OperationView, links Links) string {
	return "There is nothing to cancel" + stands(view, links)
}

// NothingToRetry answers a retry without a failed operation.
func NothingToRetry(view *bot.OperationView, links Links) string {
	s := "There is nothing to retry" + stands(view, links)
	if view == nil || !view.Operation.Status.Followed() {
		s = strings.TrimSuffix(s, "\n") + " Comment `/batch` to apply it.\n"
	}
	return s
}

func stands(view *bot.OperationView, links Links) string {
	if view == nil {
		return ": it was never applied.\n"
	}
	return ": it is " + sentence(state(*view, links)) + "\n"
}

// Landing answers a cancel that came too late.
func Landing(batch bot.Batch, links Links) string {
	return "It is too late to cancel: " + links.batch(batch) + " is landing, and what lands is what was tested. Its outcome shows in the status comment.\n"
}

// NotOperator refuses a command that only maintainers may give.
func NotOperator(login string) string {
	return fmt.Sprintf("Sorry, %s: only people who maintain this repository may give this command.\n", inline(login, 60))
}

// UnblockUsage answers an unblock without one of its words.
func UnblockUsage() string {
	return "Say what became of the batch: `/batch unblock merged` (it landed), `/batch unblock failed` (it did not: its members wait again) or `/batch unblock resume` (go on with it).\n"
}

// NothingToUnblock answers an unblock on a merge request that is neither a batch nor in one.
func NothingToUnblock() string {
	return "This merge request is no batch and rides in none. Comment on the batch that is blocked, or on one of its members.\n"
}

// Ruled is what became of an operator's word about a batch.
func Ruled(answer bot.OperatorAnswer) string {
	return sentence(upper(detail(answer.Text))) + "\n"
}

// NotYet answers a known command that this version does not carry out; verb is one of package command's.
func NotYet(verb string) string {
	return "The command " + code("/batch "+verb) + " is not in this version. Comment `/batch help` for those that are.\n"
}

// Unknown answers an unknown command with the nearest known one, if any is near.
func Unknown(verb, nearest string) string {
	s := "There is no command " + code(clean(verb, 40)) + "."
	if nearest != "" {
		s += " Did you mean " + code("/batch "+nearest) + "?"
	}
	return s + " Comment `/batch help` for the list.\n"
}

// TooMany notes that further commands of the same comment were left out.
func TooMany(limit int) string {
	return fmt.Sprintf("A comment may hold %d commands; the rest of this one was ignored.\n", limit)
}
