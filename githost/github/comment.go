package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/githost"
)

const (
	// longestComment is GitHub's limit, in characters.
	longestComment = 65536
	// mostComments bounds one look: whoever asks goes on from the newest it got.
	mostComments = 2000
)

// UpsertComment edits our comment that holds marker or writes one. Only a comment by ourselves is ever edited: others can copy a marker.
func (h *Host) UpsertComment(ctx context.Context, repo bot.Repository, number int, marker, body string, known int64) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("writing a comment on %s#%d: %w", repo.Path, number, err)
	}
	if marker == "" {
		return fail(errors.New("it needs a marker to be found again by"))
	}
	if !strings.Contains(githost.Truncate(body, longestComment), marker) {
		body = marker + "\n" + body
	}
	body = githost.Truncate(body, longestComment)
	if known != 0 {
		err := h.editComment(ctx, repo, known, body)
		if err == nil {
			return known, nil
		}
		if !errors.Is(err, bot.ErrNotFound) && !errors.Is(err, bot.ErrForbidden) {
			return fail(err)
		}
		// Somebody deleted it, or it is not ours after all.
	}
	own, err := h.findOwnComment(ctx, repo, number, marker)
	switch {
	case err != nil:
		return fail(err)
	case own != nil && own.GetBody() == body:
		return own.GetID(), nil
	case own != nil:
		if err := h.editComment(ctx, repo, own.GetID(), body); err != nil {
			return fail(err)
		}
		return own.GetID(), nil
	}
	var written *github.IssueComment
	err = h.call(ctx, repo, func(c *client, owner, name string) (err error) {
		written, _, err = c.Issues.CreateComment(ctx, owner, name, number, &github.IssueComment{Body: &body})
		return err
	})
	if err != nil {
		return fail(err)
	}
	return written.GetID(), nil
}

// HasComment reports whether a comment is still there. GitHub finds it by its id alone.
func (h *Host) HasComment(ctx context.Context, repo bot.Repository, number int, id int64) (bool, error) {
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		_, _, err := c.Issues.GetComment(ctx, owner, name, id)
		return err
	})
	if errors.Is(err, bot.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for comment %d on %s#%d: %w", id, repo.Path, number, err)
	}
	return true, nil
}

func (h *Host) editComment(ctx context.Context, repo bot.Repository, id int64, body string) error {
	return h.call(ctx, repo, func(c *client, owner, name string) error {
		_, _, err := c.Issues.EditComment(ctx, owner, name, id, &github.IssueComment{Body: &body})
		return err
	})
}

// findOwnComment finds the oldest comment of ours that holds marker; nil when there is none.
func (h *Host) findOwnComment(ctx context.Context, repo bot.Repository, number int, marker string) (own *github.IssueComment, err error) {
	self, err := h.ownLogin(ctx)
	if err != nil {
		return nil, err
	}
	err = h.call(ctx, repo, func(c *client, owner, name string) error {
		options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: pageSize}}
		for {
			page, resp, err := c.Issues.ListComments(ctx, owner, name, number, options)
			if err != nil {
				return err
			}
			for _, comment := range page {
				if strings.EqualFold(comment.GetUser().GetLogin(), self) && strings.Contains(comment.GetBody(), marker) {
					own = comment
					return nil
				}
			}
			if options.Page = resp.NextPage; options.Page == 0 {
				return nil
			}
		}
	})
	return own, err
}

// React acknowledges a comment, which GitHub finds by its id alone. Reviews take no reactions.
func (h *Host) React(ctx context.Context, repo bot.Repository, _ int, kind bot.CommentKind, id int64, reaction bot.Reaction) error {
	if kind != bot.CommentIssue || id == 0 {
		return nil
	}
	var raw error
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		_, _, raw = c.Reactions.CreateIssueCommentReaction(ctx, owner, name, id, string(reaction))
		return raw
	})
	switch status, _ := refusal(raw); status {
	case http.StatusNotFound, http.StatusGone, http.StatusForbidden, http.StatusUnprocessableEntity:
		return nil // gone, locked, or nothing that takes reactions
	}
	if err != nil {
		return fmt.Errorf("reacting to comment %d of %s: %w", id, repo.Path, err)
	}
	return nil
}

// ListComments lists what people wrote in conversations at or after since, oldest first. GitHub keeps times to the second and filters by the
// last edit: an old comment edited since is not among them.
func (h *Host) ListComments(ctx context.Context, repo bot.Repository, since time.Time) ([]bot.Comment, error) {
	if err := h.knowOurselves(ctx); err != nil {
		return nil, err
	}
	since = since.UTC().Truncate(time.Second)
	sort, direction := "created", "asc"
	options := &github.IssueListCommentsOptions{Sort: &sort, Direction: &direction, ListOptions: github.ListOptions{PerPage: pageSize}}
	if !since.IsZero() {
		options.Since = &since
	}
	var list []bot.Comment
	err := h.call(ctx, repo, func(c *client, owner, name string) error {
		list, options.Page = nil, 0
		for {
			page, resp, err := c.Issues.ListComments(ctx, owner, name, 0, options)
			if err != nil {
				return err
			}
			for _, comment := range page {
				if comment.GetCreatedAt().Before(since) || len(list) == mostComments {
					continue
				}
				list = append(list, bot.Comment{
					Kind:      bot.CommentIssue,
					ID:        comment.GetID(),
					Number:    lastNumber(comment.GetIssueURL()),
					Author:    h.author(comment.User),
					Body:      comment.GetBody(),
					CreatedAt: comment.GetCreatedAt().UTC(),
				})
			}
			if options.Page = resp.NextPage; options.Page == 0 || len(list) == mostComments {
				return nil
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the comments of %s: %w", repo.Path, err)
	}
	return list, nil
}

// ListReviewComments lists the bodies of a pull request's reviews, oldest first.
func (h *Host) ListReviewComments(ctx context.Context, repo bot.Repository, number int) ([]bot.Comment, error) {
	if err := h.knowOurselves(ctx); err != nil {
		return nil, err
	}
	reviews, err := h.listReviews(ctx, repo, number)
	if err != nil {
		return nil, fmt.Errorf("listing the reviews of %s#%d: %w", repo.Path, number, err)
	}
	var list []bot.Comment
	for _, r := range reviews {
		if strings.TrimSpace(r.GetBody()) == "" || r.SubmittedAt == nil {
			continue
		}
		list = append(list, bot.Comment{
			Kind:      bot.CommentReview,
			ID:        r.GetID(),
			Number:    number,
			Author:    h.author(r.User),
			Body:      r.GetBody(),
			CreatedAt: r.GetSubmittedAt().UTC(),
		})
	}
	return list, nil
}

// author is an actor that counts as a bot when it is ourselves, also when we write with a person's token.
func (h *Host) author(u *github.User) bot.Actor {
	a := actor(u)
	a.Bot = a.Bot || h.isOwn(a.Login)
	return a
}

// lastNumber reads the number at the end of an API address; 0 when there is none.
func lastNumber(address string) int {
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, '/')+1:])
	if err != nil {
		return 0
	}
	return n
}
