package message

import (
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// MarkerPrefix begins every hidden marker. A comment that begins with it is the bot's own.
const MarkerPrefix = "<!-- batchbot:"

// StatusMarker marks the status comment of a merge request.
const StatusMarker = MarkerPrefix + "status -->"

// NoticeMarker marks the comment of one history entry. The operation's id makes it unique over databases.
func NoticeMarker(entry bot.HistoryEntry) string {
	return marker("notice", fmt.Sprintf("%s/%d", entry.Operation.ID, entry.ID))
}

// ReplyMarker marks the answer to one command.
func ReplyMarker(requestID string) string { return marker("reply", requestID) }

// ClosingMarker marks the comment with which a landed member is closed or left open.
func ClosingMarker(op bot.Operation) string { return marker("landed", op.ID) }

// BatchMarker marks the body of a batch MR.
func BatchMarker(batch bot.Batch) string {
	return marker("batch", fmt.Sprintf("%d-%s", batch.ID, batch.Token))
}

// ReportMarker marks the report of a batch on its batch MR.
func ReportMarker(batch bot.Batch) string {
	return marker("report", fmt.Sprintf("%d-%s", batch.ID, batch.Token))
}

// ReopenedMarker marks the comment with which the MR of a batch that is over is closed again.
func ReopenedMarker(batch bot.Batch) string {
	return marker("reopened", fmt.Sprintf("%d-%s", batch.ID, batch.Token))
}

// BlockedMarker marks the comment that a batch is blocked; target is that of its errand.
func BlockedMarker(batch bot.Batch, target string) string {
	return marker("blocked", fmt.Sprintf("%s-%s", target, batch.Token))
}

// IsOwn reports whether a comment was written by a bot of this kind. It matters where the bot acts with a person's token and
// its comments cannot be told by their author.
func IsOwn(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), MarkerPrefix) }

// marker writes a hidden comment. Whatever could end it early is replaced.
func marker(kind, id string) string {
	id = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._:/-", r):
			return r
		}
		return '_'
	}, id)
	for strings.Contains(id, "--") {
		id = strings.ReplaceAll(id, "--", "-_")
	}
	return MarkerPrefix + kind + " " + id + " -->"
}
