package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// accessEnded begins the reason of every queue that parked because its repository was taken away.
const accessEnded = "the bot's access to the repository ended: "

// UpsertRepository makes or refreshes the row of a repository; it becomes active, and queues that parked when it was taken away open again.
func (s *Store) UpsertRepository(ctx context.Context, ref bot.RepositoryRef) (repo bot.Repository, err error) {
	if ref.Host == "" || ref.ExternalID == 0 || ref.Path == "" {
		return repo, fmt.Errorf("store repository %s: host, external id and path are needed", ref.Path)
	}
	err = s.write(ctx, "store repository "+ref.Path, func(t *tx) error {
		row := t.findRepository(ref.Host, ref.ExternalID)
		if row == nil {
			row = &repositoryRow{
				host: ref.Host, externalID: ref.ExternalID, path: ref.Path, installation: ref.Installation, defaultBranch: ref.DefaultBranch,
				active: true, version: 1, created: t.now, updated: t.now,
			}
			insert(t, &t.repositories, row, &row.id)
		}
		if ref.DefaultBranch == "" {
			ref.DefaultBranch = row.defaultBranch
		}
		if !row.active || row.value().RepositoryRef != ref {
			change(t, row)
			if !row.active {
				for _, q := range t.queues.rows {
					if q.repositoryID == row.id && q.status == bot.QueueParked && strings.HasPrefix(q.reason, accessEnded) {
						change(t, q)
						q.status, q.reason, q.updated = bot.QueueOpen, "", t.now
						q.version++
					}
				}
			}
			row.path, row.installation, row.defaultBranch, row.active, row.updated = ref.Path, ref.Installation, ref.DefaultBranch, true, t.now
			row.version++
		}
		repo = row.value()
		return nil
	})
	return repo, err
}

func (t *tables) findRepository(host string, externalID int64) *repositoryRow {
	return t.repositories.first(func(r *repositoryRow) bool { return r.host == host && r.externalID == externalID })
}

// FindRepository finds a repository by the host's id; ok is false when it is unknown.
func (s *Store) FindRepository(ctx context.Context, host string, externalID int64) (repo bot.Repository, ok bool, err error) {
	err = s.read(ctx, "find repository", func(t *tables, _ int64) error {
		if row := t.findRepository(host, externalID); row != nil {
			repo, ok = row.value(), true
		}
		return nil
	})
	return repo, ok, err
}

// ActiveRepositories lists the active repositories of a host in the order in which they became known.
func (s *Store) ActiveRepositories(ctx context.Context, host string) (repos []bot.Repository, err error) {
	err = s.read(ctx, "list repositories", func(t *tables, _ int64) error {
		for _, r := range t.repositories.rows {
			if r.host == host && r.active {
				repos = append(repos, r.value())
			}
		}
		return nil
	})
	return repos, err
}

// DeactivateRepositories ends repositories of an installation: those named, or all of them when externalIDs is nil. Their open queues park with
// reason.
func (s *Store) DeactivateRepositories(ctx context.Context, host string, installation int64, externalIDs []int64, reason string) error {
	var ids []int64
	err := s.read(ctx, "list the repositories of an installation", func(t *tables, _ int64) error {
		for _, r := range t.repositories.rows {
			if r.host == host && r.installation == installation && r.active && (externalIDs == nil || slices.Contains(externalIDs, r.externalID)) {
				ids = append(ids, r.id)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.write(ctx, "end a repository", func(t *tx) error {
			row := t.repository(id)
			if row == nil || row.installation != installation || !row.active {
				return nil
			}
			change(t, row)
			row.active, row.updated = false, t.now
			row.version++
			for _, q := range t.queues.rows {
				if q.repositoryID == id && q.status == bot.QueueOpen {
					change(t, q)
					q.status, q.reason, q.updated = bot.QueueParked, clip(accessEnded+reason, longText), t.now
					q.version++
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// UpsertQueue makes the queue for settings.Branch, or stores its new settings. The version grows only when the settings changed.
func (s *Store) UpsertQueue(ctx context.Context, repositoryID int64, settings bot.QueueSettings, blob string) (queue bot.Queue, err error) {
	name := "store the queue for " + settings.Branch
	if settings.Branch == "" || settings.Branch != clip(settings.Branch, 255) {
		return bot.Queue{}, fmt.Errorf("%s: the branch name must have 1 to 255 characters", name)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return bot.Queue{}, fmt.Errorf("%s: %w", name, err)
	}
	var parsed bot.QueueSettings
	if err := json.Unmarshal(text, &parsed); err != nil {
		return bot.Queue{}, fmt.Errorf("%s: %w", name, err)
	}
	err = s.write(ctx, name, func(t *tx) error {
		row := t.findQueue(repositoryID, settings.Branch)
		if row == nil {
			row = &queueRow{
				repositoryID: repositoryID, target: settings.Branch, status: bot.QueueOpen, settings: string(text), parsed: parsed, blob: blob,
				version: 1, created: t.now, updated: t.now,
			}
			insert(t, &t.queues, row, &row.id)
		}
		if row.settings != string(text) || row.blob != blob {
			change(t, row)
			if row.settings != string(text) {
				row.version++
			}
			row.settings, row.parsed, row.blob, row.updated = string(text), parsed, blob, t.now
		}
		queue = row.value()
		return nil
	})
	return queue, err
}

func (t *tables) findQueue(repositoryID int64, target string) *queueRow {
	return t.queues.first(func(q *queueRow) bool { return q.repositoryID == repositoryID && q.target == target })
}

// FindQueue finds the queue of a target branch; ok is false when the branch has none yet.
func (s *Store) FindQueue(ctx context.Context, repositoryID int64, target string) (queue bot.Queue, ok bool, err error) {
	err = s.read(ctx, "find the queue of "+target, func(t *tables, _ int64) error {
		if row := t.findQueue(repositoryID, target); row != nil {
			queue, ok = row.value(), true
		}
		return nil
	})
	return queue, ok, err
}

// RecordMR makes or refreshes the row of a merge request.
func (s *Store) RecordMR(ctx context.Context, repositoryID int64, mr bot.MRSnapshot) (row bot.MergeRequest, err error) {
	title := clip(mr.Title, titleText)
	author := bot.Actor{ID: mr.Author.ID, Login: clip(mr.Author.Login, 255), Bot: mr.Author.Bot}
	err = s.write(ctx, fmt.Sprint("record merge request ", mr.Number), func(t *tx) error {
		found := t.findMR(repositoryID, mr.Number)
		if found == nil {
			found = &mrRow{
				repositoryID: repositoryID, number: mr.Number, title: title, author: author, headSHA: mr.HeadSHA, version: 1, created: t.now, updated: t.now,
			}
			insert(t, &t.mrs, found, &found.id)
		}
		if found.title != title || found.author != author || found.headSHA != mr.HeadSHA {
			change(t, found)
			found.title, found.author, found.headSHA, found.updated = title, author, mr.HeadSHA, t.now
			found.version++
		}
		row = found.value()
		return nil
	})
	return row, err
}

// SaveWatermark stores up to when, by the host's clock, the comments of a repository were looked at. It never goes back.
func (s *Store) SaveWatermark(ctx context.Context, repositoryID int64, seen time.Time) error {
	return s.write(ctx, "save how far comments were seen", func(t *tx) error {
		if row := t.repository(repositoryID); row != nil && row.commentsSeenAt < seen.UnixMicro() {
			change(t, row)
			row.commentsSeenAt, row.updated = seen.UnixMicro(), t.now
		}
		return nil
	})
}
