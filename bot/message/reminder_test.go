package message

import (
	"strings"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// reminding is what an operation is reminded of.
func reminding(state bot.RemindableState, v bot.OperationView, since time.Duration) string {
	return Reminder(bot.ReminderView{Operation: v, State: state, Entry: "31", For: since}, operationID+"/31/0", links)
}

// reminderTexts is every reminder, by golden file.
func reminderTexts() map[string]string {
	const day = 24 * time.Hour
	blocked := view(bot.OperationBatched, bot.ReasonClaimed, "")
	blocked.Batch = batch(bot.BatchBlocked, bot.CodeForeignPush)
	blocked.Batch.Message = "the branch stands at abc; delete it or settle the batch by hand"
	return map[string]string{
		"reminder_approvers": reminding(bot.RemindPending, view(bot.OperationPendingApproval, bot.ReasonApplied, "needs 1 more approval at 1111111 from somebody with write access"), 3*day+time.Hour),
		"reminder_failed":    reminding(bot.RemindFailed, view(bot.OperationFailed, bot.ReasonCIRed, "https://ci.example/run/9"), 25*time.Hour),
		"reminder_blocked":   reminding(bot.RemindBlocked, blocked, 61*time.Minute),
	}
}

func TestNobodyIsRemindedOfNothing(t *testing.T) {
	t.Parallel()
	if text := reminding(0, view(bot.OperationWaiting, bot.ReasonApproved, ""), time.Hour); text != "" {
		t.Errorf("says %q", text)
	}
	first, second := ReminderMarker(operationID+"/31/0"), ReminderMarker(operationID+"/31/1")
	if first == second || !strings.HasPrefix(first, MarkerPrefix) || !strings.HasSuffix(first, " -->") {
		t.Errorf("%s and %s", first, second)
	}
}
