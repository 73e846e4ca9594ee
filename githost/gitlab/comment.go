package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

const (
	// longestComment is GitLab's limit, in characters.
	longestComment = 1_000_000
	// mostComments bounds one look: whoever asks goes on from the newest it got.
	mostComments = 2000

	oldestFirst = "asc"
	newestFirst = "desc"
)

// UpsertComment edits our comment that holds marker or writes one. Only a comment by ourselves is ever edited: others can copy a marker.
func (h *Host) UpsertComment(ctx context.Context, repo bot.Repository, number int, marker, body string, known int64) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("writing a comment on %s!%d: %w", repo.Path, number, err)
	}
	if marker == "" {
		return fail(errors.New("it needs a marker to be found again by"))
	}
	if !strings.Contains(githost.Truncate(body, longestComment), marker) {
		body = marker + "\n" + body
	}
	body = githost.Truncate(harmless(body), longestComment)
	if known != 0 {
		err := h.editNote(ctx, repo, number, known, body)
		if err == nil {
			return known, nil
		}
		if !errors.Is(err, bot.ErrNotFound) && !errors.Is(err, bot.ErrForbidden) {
			return fail(err)
		}
		// Somebody deleted it, or it is not ours after all.
	}
	own, err := h.findOwnNote(ctx, repo, number, marker)
	switch {
	case err != nil:
		return fail(err)
	case own != nil && own.Body == body:
		return int64(own.ID), nil
	case own != nil:
		if err := h.editNote(ctx, repo, number, int64(own.ID), body); err != nil {
			return fail(err)
		}
		return int64(own.ID), nil
	}
	var written *gitlab.Note
	err = h.call(ctx, repo, func(project int) (err error) {
		written, _, err = h.client.Notes.CreateMergeRequestNote(project, number, &gitlab.CreateMergeRequestNoteOptions{Body: &body}, within(ctx)...)
		return err
	})
	switch {
	case err != nil:
		return fail(err)
	case written.ID == 0:
		return fail(errors.New("the host does not say which comment it is"))
	}
	return int64(written.ID), nil
}

// harmless keeps GitLab from taking lines of a text for quick actions, which it would carry out with our rights. Our own command is none
// of them.
func harmless(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if bare := strings.TrimLeft(line, " \t\u00a0"); strings.HasPrefix(bare, "/") && !strings.HasPrefix(bare, "/batch") {
			lines[i] = line[:len(line)-len(bare)] + `\` + bare
		}
	}
	return strings.Join(lines, "\n")
}

// HasComment reports whether a comment is still there.
func (h *Host) HasComment(ctx context.Context, repo bot.Repository, number int, id int64) (bool, error) {
	err := h.call(ctx, repo, func(project int) error {
		_, _, err := h.client.Notes.GetMergeRequestNote(project, number, int(id), within(ctx)...)
		return err
	})
	if errors.Is(err, bot.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for comment %d on %s!%d: %w", id, repo.Path, number, err)
	}
	return true, nil
}

func (h *Host) editNote(ctx context.Context, repo bot.Repository, number int, id int64, body string) error {
	return h.call(ctx, repo, func(project int) error {
		_, _, err := h.client.Notes.UpdateMergeRequestNote(project, number, int(id), &gitlab.UpdateMergeRequestNoteOptions{Body: &body}, within(ctx)...)
		return err
	})
}

// eachNote calls f with every note of a merge request until f says no.
func (h *Host) eachNote(ctx context.Context, repo bot.Repository, number int, order string, f func(*gitlab.Note) bool) error {
	return h.call(ctx, repo, func(project int) error {
		return everyPage(func(page int) (int, error) {
			notes, resp, err := h.client.Notes.ListMergeRequestNotes(project, number, &gitlab.ListMergeRequestNotesOptions{
				ListOptions: gitlab.ListOptions{PerPage: pageSize, Page: page}, OrderBy: gitlab.Ptr("created_at"), Sort: &order,
			}, within(ctx)...)
			if err != nil {
				return 0, err
			}
			for _, n := range notes {
				if !f(n) {
					return 0, nil
				}
			}
			return resp.NextPage, nil
		})
	})
}

// findOwnNote finds the oldest note of ours that holds marker; nil when there is none.
func (h *Host) findOwnNote(ctx context.Context, repo bot.Repository, number int, marker string) (own *gitlab.Note, err error) {
	self, err := h.ownID(ctx)
	if err != nil {
		return nil, err
	}
	err = h.eachNote(ctx, repo, number, oldestFirst, func(n *gitlab.Note) bool {
		if !n.System && int64(n.Author.ID) == self && strings.Contains(n.Body, marker) {
			own = n
		}
		return own == nil
	})
	return own, err
}

// emojis are GitLab's names for reactions.
var emojis = map[bot.Reaction]string{
	bot.ReactionSeen: "eyes", bot.ReactionDone: "thumbsup", bot.ReactionRefused: "thumbsdown", bot.ReactionConfused: "confused",
}

// React acknowledges a comment. A second award of the same name is refused as "not found", like one on a note that is gone.
func (h *Host) React(ctx context.Context, repo bot.Repository, number int, kind bot.CommentKind, id int64, reaction bot.Reaction) error {
	name := emojis[reaction]
	if kind != bot.CommentIssue || id <= 0 || number <= 0 || name == "" {
		return nil
	}
	var raw error
	err := h.call(ctx, repo, func(project int) error {
		_, _, raw = h.client.AwardEmoji.CreateMergeRequestAwardEmojiOnNote(project, number, int(id), &gitlab.CreateAwardEmojiOptions{Name: name}, within(ctx)...)
		return raw
	})
	switch status, _ := refusal(raw); status {
	case http.StatusNotFound, http.StatusForbidden, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity, http.StatusBadRequest:
		return nil // given already, gone, or nothing that takes reactions
	}
	if err != nil {
		return fmt.Errorf("reacting to note %d on %s!%d: %w", id, repo.Path, number, err)
	}
	return nil
}

// ListComments lists what people wrote on merge requests at or after since, oldest first. GitLab has no such list: a note updates what it is on,
// so the notes of everything updated since are read. Times are kept to the second, as webhooks have them, so that a comment has the
// same place in the order whichever way it came.
func (h *Host) ListComments(ctx context.Context, repo bot.Repository, since time.Time) ([]bot.Comment, error) {
	fail := func(err error) ([]bot.Comment, error) {
		return nil, fmt.Errorf("listing the comments of %s: %w", repo.Path, err)
	}
	if _, err := h.ownID(ctx); err != nil {
		return fail(err)
	}
	since = since.UTC().Truncate(time.Second)
	numbers, err := h.updatedSince(ctx, repo, since)
	if err != nil {
		return fail(err)
	}
	var list []bot.Comment
	for _, number := range numbers {
		err := h.eachNote(ctx, repo, number, newestFirst, func(n *gitlab.Note) bool {
			if n.CreatedAt == nil {
				return true
			}
			at := n.CreatedAt.UTC().Truncate(time.Second)
			if at.Before(since) {
				return false
			}
			if !n.System && !n.Internal && !n.Confidential {
				list = append(list, bot.Comment{
					Kind: bot.CommentIssue, ID: int64(n.ID), Number: number, Author: h.actor(int64(n.Author.ID), n.Author.Username), Body: n.Body, CreatedAt: at,
				})
			}
			return true
		})
		if err != nil && !errors.Is(err, bot.ErrNotFound) { // deleted since it was listed
			return fail(fmt.Errorf("of !%d: %w", number, err))
		}
	}
	slices.SortFunc(list, func(a, b bot.Comment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), mostComments)], nil
}

// updatedSince lists the numbers of merge requests in any state updated at or after since. It goes on from the time of the last one rather
// than by page number: what is updated meanwhile moves to the end of the list, and would shift the others to a page already read.
func (h *Host) updatedSince(ctx context.Context, repo bot.Repository, since time.Time) (numbers []int, err error) {
	err = h.call(ctx, repo, func(project int) error {
		numbers = nil
		seen := map[int]bool{}
		options := &gitlab.ListProjectMergeRequestsOptions{
			ListOptions: gitlab.ListOptions{PerPage: pageSize, Page: 1},
			State:       gitlab.Ptr("all"), OrderBy: gitlab.Ptr("updated_at"), Sort: gitlab.Ptr("asc"),
		}
		if !since.IsZero() {
			options.UpdatedAfter = &since
		}
		for {
			mrs, _, err := h.client.MergeRequests.ListProjectMergeRequests(project, options, within(ctx)...)
			if err != nil {
				return err
			}
			fresh := false
			for _, mr := range mrs {
				if !seen[mr.IID] {
					seen[mr.IID], fresh = true, true
					numbers = append(numbers, mr.IID)
				}
			}
			switch {
			case len(mrs) < pageSize:
				return nil
			case fresh && mrs[len(mrs)-1].UpdatedAt != nil:
				options.UpdatedAfter, options.Page = mrs[len(mrs)-1].UpdatedAt, 1
			default:
				options.Page++ // a page full of one moment
			}
		}
	})
	return numbers, err
}

// ListReviewComments lists nothing: an approval on GitLab has no words of its own. What is written beside it is a note like any other, and
// ListComments has it.
func (h *Host) ListReviewComments(context.Context, bot.Repository, int) ([]bot.Comment, error) {
	return nil, nil
}
