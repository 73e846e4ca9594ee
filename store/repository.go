package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batchbot/batchbot/bot"
)

const (
	repositoryColumns = `r.id, r.host, r.external_id, r.path, r.installation, r.default_branch, r.active, r.comments_seen_at`
	queueColumns      = `q.id, q.repository_id, q.target_branch, q.status, q.reason, q.settings, q.settings_blob, q.version`
)

// accessEnded begins the reason of every queue that parked because its repository was taken away, so that giving the repository back
// opens exactly those again.
const accessEnded = "the bot's access to the repository ended: "

// UpsertRepository makes or refreshes the row of a repository; it becomes active. An empty DefaultBranch keeps the stored one. Queues
// that parked when the repository was taken away open again.
func (s *Store) UpsertRepository(ctx context.Context, ref bot.RepositoryRef) (bot.Repository, error) {
	name := fmt.Sprintf("store repository %s of host %s", ref.Path, ref.Host)
	if ref.Host == "" || ref.ExternalID == 0 || ref.Path == "" {
		return bot.Repository{}, fmt.Errorf("%s: host, external id and path are needed, got %q, %d and %q", name, ref.Host, ref.ExternalID, ref.Path)
	}
	var repo bot.Repository
	err := s.write(ctx, job{name: name, run: func(tx *tx) error {
		found, err := findRepository(ctx, tx, ref.Host, ref.ExternalID, &repo)
		if err != nil {
			return err
		}
		if !found {
			_, _, err := tx.insert(ctx, &keyRepository, `INSERT INTO repository
				(host, external_id, path, installation, default_branch, active, comments_seen_at, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, 1, 0, {now}, {now})`,
				ref.Host, ref.ExternalID, ref.Path, ref.Installation, ref.DefaultBranch)
			if err != nil {
				return err
			}
			// Ours, or that of whoever was first.
			if found, err = findRepository(ctx, tx, ref.Host, ref.ExternalID, &repo); err != nil || !found {
				return missing(err, "the row just stored")
			}
		}
		if ref.DefaultBranch == "" {
			ref.DefaultBranch = repo.DefaultBranch
		}
		if repo.Active && repo.RepositoryRef == ref {
			return nil
		}
		if _, err := tx.exec(ctx, `UPDATE repository SET path = ?, installation = ?, default_branch = ?, active = 1,
			version = version + 1, updated_at = {now} WHERE id = ?`,
			ref.Path, ref.Installation, ref.DefaultBranch, repo.ID); err != nil {
			return err
		}
		if !repo.Active {
			if _, err := tx.exec(ctx, `UPDATE queue SET status = ?, reason = '', version = version + 1, updated_at = {now}
				WHERE repository_id = ? AND status = ? AND reason LIKE ?`,
				bot.QueueOpen, repo.ID, bot.QueueParked, accessEnded+"%"); err != nil {
				return err
			}
		}
		repo.RepositoryRef, repo.Active = ref, true
		return nil
	}, landed: looksAgain})
	return repo, err
}

// FindRepository finds a repository by the host's id; ok is false when it is unknown.
func (s *Store) FindRepository(ctx context.Context, host string, externalID int64) (repo bot.Repository, ok bool, err error) {
	ok, err = findRepository(ctx, s, host, externalID, &repo)
	if err != nil {
		return bot.Repository{}, false, fmt.Errorf("read repository %d of host %s: %w", externalID, host, err)
	}
	return repo, ok, nil
}

// ActiveRepositories lists the active repositories of a host in the order in which they became known.
func (s *Store) ActiveRepositories(ctx context.Context, host string) ([]bot.Repository, error) {
	var repos []bot.Repository
	err := s.each(ctx, `SELECT `+repositoryColumns+` FROM repository r WHERE r.host = ? AND r.active = 1 ORDER BY r.id`, []any{host},
		func(scan scan) error {
			var repo bot.Repository
			if err := scan(repositoryFields(&repo)...); err != nil {
				return err
			}
			repos = append(repos, repo)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list the repositories of host %s: %w", host, err)
	}
	return repos, nil
}

// DeactivateRepositories ends repositories of an installation: those named, or all of them when externalIDs is nil. Their open
// queues park with reason. A repository that came to another installation meanwhile is left alone.
func (s *Store) DeactivateRepositories(ctx context.Context, host string, installation int64, externalIDs []int64, reason string) error {
	var ids []int64
	take := func(where string, args ...any) error {
		return s.each(ctx, `SELECT id FROM repository WHERE host = ? AND installation = ? AND active = 1`+where+` ORDER BY id`,
			append([]any{host, installation}, args...), func(scan scan) error {
				var id int64
				if err := scan(&id); err != nil {
					return err
				}
				ids = append(ids, id)
				return nil
			})
	}
	var err error
	if externalIDs == nil {
		err = take("")
	}
	for _, externalID := range externalIDs {
		if err == nil {
			err = take(` AND external_id = ?`, externalID)
		}
	}
	if err != nil {
		return fmt.Errorf("list the repositories of installation %d of host %s: %w", installation, host, err)
	}
	for _, id := range ids {
		if err := s.deactivate(ctx, id, installation, reason); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deactivate(ctx context.Context, id, installation int64, reason string) error {
	return s.write(ctx, job{name: fmt.Sprintf("end repository %d", id), run: func(tx *tx) error {
		n, err := tx.exec(ctx, `UPDATE repository SET active = 0, version = version + 1, updated_at = {now}
			WHERE id = ? AND installation = ? AND active = 1`, id, installation)
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.exec(ctx, `UPDATE queue SET status = ?, reason = ?, version = version + 1, updated_at = {now}
			WHERE repository_id = ? AND status = ?`,
			bot.QueueParked, clip(accessEnded+reason, longText), id, bot.QueueOpen)
		return err
	}, landed: looksAgain})
}

// UpsertQueue makes the queue for settings.Branch, or stores its new settings; blob is the repository file's git blob id. The
// version grows only when the settings changed.
func (s *Store) UpsertQueue(ctx context.Context, repositoryID int64, settings bot.QueueSettings, blob string) (bot.Queue, error) {
	name := fmt.Sprintf("store the queue for branch %q of repository %d", settings.Branch, repositoryID)
	if settings.Branch == "" || settings.Branch != clip(settings.Branch, 255) {
		return bot.Queue{}, fmt.Errorf("%s: the branch name must have 1 to 255 characters", name)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return bot.Queue{}, fmt.Errorf("%s: %w", name, err)
	}
	var queue bot.Queue
	err = s.write(ctx, job{name: name, run: func(tx *tx) error {
		found, err := findQueue(ctx, tx, repositoryID, settings.Branch, &queue)
		if err != nil {
			return err
		}
		if !found {
			_, _, err := tx.insert(ctx, &keyQueue, `INSERT INTO queue
				(repository_id, target_branch, status, reason, settings, settings_blob, created_at, updated_at)
				VALUES (?, ?, ?, '', ?, ?, {now}, {now})`,
				repositoryID, settings.Branch, bot.QueueOpen, string(text), blob)
			if err != nil {
				return err
			}
			if found, err = findQueue(ctx, tx, repositoryID, settings.Branch, &queue); err != nil || !found {
				return missing(err, "the row just stored")
			}
		}
		stored, err := json.Marshal(queue.Settings)
		if err != nil {
			return err
		}
		grows := 0
		switch {
		case string(stored) != string(text):
			grows = 1
		case queue.SettingsBlob == blob:
			return nil
		}
		_, err = tx.exec(ctx, `UPDATE queue SET settings = ?, settings_blob = ?, version = version + ?, updated_at = {now} WHERE id = ?`,
			string(text), blob, grows, queue.ID)
		if err != nil {
			return err
		}
		_, err = findQueue(ctx, tx, repositoryID, settings.Branch, &queue)
		return err
	}, landed: looksAgain})
	return queue, err
}

// FindQueue finds the queue of a target branch; ok is false when the branch has none yet.
func (s *Store) FindQueue(ctx context.Context, repositoryID int64, target string) (queue bot.Queue, ok bool, err error) {
	ok, err = findQueue(ctx, s, repositoryID, target, &queue)
	if err != nil {
		return bot.Queue{}, false, fmt.Errorf("read the queue for branch %q of repository %d: %w", target, repositoryID, err)
	}
	return queue, ok, nil
}

// RecordMR makes or refreshes the row of a merge request.
func (s *Store) RecordMR(ctx context.Context, repositoryID int64, mr bot.MRSnapshot) (bot.MergeRequest, error) {
	title, login := clip(mr.Title, titleText), clip(mr.Author.Login, 255)
	var row bot.MergeRequest
	err := s.write(ctx, job{name: fmt.Sprintf("record merge request %d of repository %d", mr.Number, repositoryID), run: func(tx *tx) error {
		found, err := findMR(ctx, tx, repositoryID, mr.Number, &row)
		if err != nil {
			return err
		}
		if !found {
			_, _, err := tx.insert(ctx, &keyMergeRequest, `INSERT INTO merge_request
				(repository_id, number, title, author_id, author_login, author_bot, head_sha, last_command_at, last_command_id, sticky_comment_id, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, {now}, {now})`,
				repositoryID, mr.Number, title, mr.Author.ID, login, mr.Author.Bot, mr.HeadSHA)
			if err != nil {
				return err
			}
			if found, err = findMR(ctx, tx, repositoryID, mr.Number, &row); err != nil || !found {
				return missing(err, "the row just stored")
			}
		}
		author := bot.Actor{ID: mr.Author.ID, Login: login, Bot: mr.Author.Bot}
		if row.Title == title && row.Author == author && row.HeadSHA == mr.HeadSHA {
			return nil
		}
		row.Title, row.Author, row.HeadSHA = title, author, mr.HeadSHA
		_, err = tx.exec(ctx, `UPDATE merge_request SET title = ?, author_id = ?, author_login = ?, author_bot = ?, head_sha = ?,
			version = version + 1, updated_at = {now} WHERE id = ?`,
			title, author.ID, login, author.Bot, mr.HeadSHA, row.ID)
		return err
	}, landed: looksAgain})
	return row, err
}

// SaveWatermark stores up to when, by the host's clock, the comments of a repository were looked at. It never goes back.
func (s *Store) SaveWatermark(ctx context.Context, repositoryID int64, seen time.Time) error {
	return s.write(ctx, job{name: fmt.Sprintf("save how far the comments of repository %d were seen", repositoryID), run: func(tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE repository SET comments_seen_at = ?, updated_at = {now} WHERE id = ? AND comments_seen_at < ?`,
			seen.UnixMicro(), repositoryID, seen.UnixMicro())
		return err
	}, landed: looksAgain})
}

// looksAgain is for jobs whose repetition finds the work done and changes nothing: after a lost COMMIT they simply run again.
func looksAgain(context.Context) (bool, error) { return false, nil }

// missing is the error of a read that had to find something.
func missing(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", what, ErrMissing)
}

func findRepository(ctx context.Context, from source, host string, externalID int64, repo *bot.Repository) (bool, error) {
	return one(ctx, from, `SELECT `+repositoryColumns+` FROM repository r WHERE r.host = ? AND r.external_id = ?`,
		[]any{host, externalID}, repositoryFields(repo)...)
}

func findQueue(ctx context.Context, from source, repositoryID int64, branch string, queue *bot.Queue) (bool, error) {
	return one(ctx, from, `SELECT `+queueColumns+` FROM queue q WHERE q.repository_id = ? AND q.target_branch = ?`,
		[]any{repositoryID, branch}, queueFields(queue)...)
}

const mrColumns = `m.id, m.repository_id, m.number, m.title, m.author_id, m.author_login, m.author_bot, m.head_sha,
	m.sticky_comment_id, m.last_command_at, m.last_command_id`

func findMR(ctx context.Context, from source, repositoryID int64, number int, mr *bot.MergeRequest) (bool, error) {
	return one(ctx, from, `SELECT `+mrColumns+` FROM merge_request m WHERE m.repository_id = ? AND m.number = ?`,
		[]any{repositoryID, number}, mrFields(mr)...)
}

func repositoryFields(r *bot.Repository) []any {
	return []any{&r.ID, &r.Host, &r.ExternalID, &r.Path, &r.Installation, &r.DefaultBranch, &r.Active, (*hostTime)(&r.CommentsSeenAt)}
}

func queueFields(q *bot.Queue) []any {
	return []any{&q.ID, &q.RepositoryID, &q.Target, &q.State, &q.Reason, settingsOf{&q.Settings}, &q.SettingsBlob, &q.Version}
}

func mrFields(m *bot.MergeRequest) []any {
	return []any{&m.ID, &m.RepositoryID, &m.Number, &m.Title, &m.Author.ID, &m.Author.Login, &m.Author.Bot, &m.HeadSHA,
		&m.StickyCommentID, &m.LastCommand.At, &m.LastCommand.ID}
}

// hostTime scans a column of the host's clock: microseconds since 1970, 0 = never.
type hostTime time.Time

// Scan implements sql.Scanner.
func (t *hostTime) Scan(value any) error {
	v, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a column of the host's clock holds a %T", value)
	}
	*t = hostTime{}
	if v != 0 {
		*t = hostTime(time.UnixMicro(v).UTC())
	}
	return nil
}

// settingsOf scans a column of queue settings.
type settingsOf struct{ into *bot.QueueSettings }

// Scan implements sql.Scanner.
func (s settingsOf) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		raw, isBytes := value.([]byte)
		if !isBytes {
			return fmt.Errorf("a settings column holds a %T", value)
		}
		text = string(raw)
	}
	*s.into = bot.QueueSettings{}
	if err := json.Unmarshal([]byte(text), s.into); err != nil {
		return fmt.Errorf("stored queue settings: %w", err)
	}
	return nil
}
