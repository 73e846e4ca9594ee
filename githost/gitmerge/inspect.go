package gitmerge

import (
	"context"
	"fmt"

	"github.com/batchbot/batchbot/bot"
)

// Inspect implements bot.Git. A target that is gone is bot.ErrNotFound. It is called when a batch is watched or settled, not while one
// is built, so it also keeps the mirror tidy.
func (m *Merger) Inspect(ctx context.Context, from bot.GitRemote, question bot.InspectSpec) (found bot.Inspection, err error) {
	mirror, to, err := m.open(from)
	if err == nil {
		err = checkQuestion(question)
	}
	if err == nil {
		err = mirror.repaired(ctx, func() (err error) {
			found, err = mirror.inspect(ctx, to, question)
			return err
		})
	}
	if err != nil {
		return bot.Inspection{}, fmt.Errorf("inspecting %s: %w", question.Target, err)
	}
	mirror.tidy(ctx)
	return found, nil
}

func checkQuestion(question bot.InspectSpec) error {
	if err := checkBranch("the target branch", question.Target); err != nil {
		return err
	}
	for _, id := range question.Heads {
		if err := checkObjectID("a head", id); err != nil {
			return err
		}
	}
	for _, id := range question.Trees {
		if err := checkObjectID("a commit", id); err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) inspect(ctx context.Context, from remote, question bot.InspectSpec) (bot.Inspection, error) {
	fetched, err := m.fetch(ctx, from, question.Target, nil)
	if err != nil {
		return bot.Inspection{}, err
	}
	found := bot.Inspection{Tip: fetched.tip, Contained: map[string]bool{}, Trees: map[string]string{}}

	names := append([]string{}, question.Heads...)
	for _, commit := range question.Trees {
		names = append(names, commit+"^{tree}")
	}
	ids, err := m.objectNames(ctx, names)
	if err != nil {
		return bot.Inspection{}, err
	}
	// The target was fetched with all its history, so a head the mirror does not know is not part of it.
	var known []string
	for i, head := range question.Heads {
		found.Contained[head] = false
		if ids[i] != "" {
			known = append(known, head)
		}
	}
	for i, commit := range question.Trees {
		if tree := ids[len(question.Heads)+i]; tree != "" {
			found.Trees[commit] = tree
		}
	}
	news, err := m.newcomers(ctx, found.Tip, known)
	if err != nil {
		return bot.Inspection{}, err
	}
	for _, head := range known {
		found.Contained[head] = news.contained(head)
	}
	return found, nil
}
