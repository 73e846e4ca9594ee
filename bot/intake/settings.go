package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/bot/message"
)

// SettingsFile is the repository file. It is read from the target branch only: what a merge request says there counts once it landed.
const SettingsFile = ".batchbot.yml"

// foundQueue is the queue of a target branch, or why there is none.
type foundQueue struct {
	queue   bot.Queue
	refusal string // text for people: the branch has no queue; queue is zero
	note    string // text for people: the file is broken, the queue keeps its last good settings
}

// queue finds the queue of a target branch as the repository file at its head says, and stores its settings.
func (a *Applier) queue(ctx context.Context, repo bot.Repository, target string) (foundQueue, error) {
	host, err := a.host(repo.Host)
	if err != nil {
		return foundQueue{}, err
	}
	if repo.DefaultBranch == "" {
		read, ok, err := a.readRepository(ctx, repo, true)
		if err != nil {
			return foundQueue{}, err
		}
		if !ok {
			return foundQueue{}, fmt.Errorf("reading repository %s: %w", repo.Path, bot.ErrGone)
		}
		repo = read
	}
	existing, exists, err := a.Records.FindQueue(ctx, repo.ID, target)
	if err != nil {
		return foundQueue{}, fmt.Errorf("finding the queue of %s of %s: %w", target, repo.Path, err)
	}
	content, blob, err := host.ReadFile(ctx, repo, target, SettingsFile)
	var settings bot.QueueSettings
	switch {
	case errors.Is(err, bot.ErrNotFound) && target == repo.DefaultBranch:
		settings, blob = bot.DefaultQueueSettings(target), ""
		if exists && existing.SettingsBlob == "" {
			break // as before
		}
		// On a branch that is gone, even for a moment, there is no file either. The defaults may ask for less than the file did.
		switch _, err := host.ReadBranch(ctx, repo, target); {
		case errors.Is(err, bot.ErrNotFound):
			return foundQueue{refusal: message.NoTarget(target)}, nil
		case err != nil:
			return foundQueue{}, fmt.Errorf("reading branch %s of %s: %w", target, repo.Path, err)
		}
	case errors.Is(err, bot.ErrNotFound):
		return foundQueue{refusal: message.NoQueue(target, []string{repo.DefaultBranch})}, nil
	case err != nil:
		return foundQueue{}, fmt.Errorf("reading %s on %s of %s: %w", SettingsFile, target, repo.Path, err)
	default:
		file, err := a.ParseSettings(content, repo.DefaultBranch)
		if err != nil && exists {
			return foundQueue{queue: existing, note: message.KeptSettings(target, err.Error())}, nil
		}
		if err != nil {
			return foundQueue{refusal: message.BadSettings(target, err.Error())}, nil
		}
		of, ok := file.Queue(target)
		if !ok {
			var branches []string
			for _, q := range file.Queues {
				branches = append(branches, q.Branch)
			}
			return foundQueue{refusal: message.NoQueue(target, branches)}, nil
		}
		settings = of
	}
	// A target on which a batch cannot land as it was tested is refused before anybody waits for it.
	rules, err := host.ReadTargetRules(ctx, repo, target)
	if err != nil {
		return foundQueue{}, fmt.Errorf("reading the rules of %s of %s: %w", target, repo.Path, err)
	}
	if obstacle := bot.LandingObstacle(settings.Landing, rules); obstacle != "" {
		return foundQueue{refusal: message.Unsuitable(target, obstacle)}, nil
	}
	queue, err := a.Records.UpsertQueue(ctx, repo.ID, settings, blob)
	if err != nil {
		return foundQueue{}, fmt.Errorf("storing the queue of %s of %s: %w", target, repo.Path, err)
	}
	return foundQueue{queue: queue}, nil
}
