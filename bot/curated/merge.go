package curated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchbot/batchbot/bot"
)

// dryMerge merges in the order of the rows whatever can be merged, with real git, and throws the result away. Nothing is pushed.
func (d *Desk) dryMerge(ctx context.Context, found *findings, host bot.Host, view bot.CuratedView, members []member) error {
	rows := make(map[int]bot.CuratedRow) // by merge request
	spec := bot.BuildSpec{BatchID: view.Curated.ID, Token: "dry", CreatedAt: time.Now(), Target: view.Queue.Target}
	for _, m := range members {
		if m.mergeable {
			rows[m.row.Number] = m.row
			spec.Members = append(spec.Members, bot.BuildMember{Number: m.row.Number, HeadSHA: m.mr.HeadSHA, HeadRef: host.HeadRef(m.row.Number)})
		}
	}
	if len(spec.Members) == 0 {
		return nil
	}
	remote, err := host.GitRemote(ctx, view.Repository)
	if err != nil {
		return fmt.Errorf("getting git access to %s: %w", view.Repository.Path, err)
	}
	built, err := d.Git.Build(ctx, remote, spec)
	if errors.Is(err, bot.ErrNotFound) {
		found.add(bot.ProblemMerge, bot.CuratedRow{}, "the target branch %s does not exist: restore it first", view.Queue.Target)
		return nil
	}
	if err != nil {
		return fmt.Errorf("merging them for a try: %w", err)
	}
	defer built.Close()
	var aboard []bot.MemberBuild
	for _, m := range built.Result().Members {
		row := rows[m.Number]
		switch m.Fate {
		case bot.FateMerged:
			aboard = append(aboard, m)
		case bot.FateMoved:
			found.add(bot.ProblemHead, row, "was pushed to while it was checked: try again")
		case bot.FateContained:
			found.add(bot.ProblemMerge, row, "brings nothing that %s does not have: leave it out", view.Queue.Target)
		case bot.FateUnrelated:
			found.add(bot.ProblemMerge, row, "shares no history with %s: rebuild its branch on top of it", view.Queue.Target)
		case bot.FateConflict:
			found.add(bot.ProblemMerge, row, "conflicts with %s in %s: merge %s into it", view.Queue.Target, files(m.Files), view.Queue.Target)
		case bot.FateConflictBatch:
			with, err := against(ctx, built, rows, aboard, m)
			if err != nil {
				return err
			}
			found.add(bot.ProblemMerge, row, "conflicts with %s in %s: mend it, change the order, or leave one out", with, files(m.Files))
		default:
			return fmt.Errorf("merging !%d for a try: %s", m.Number, m.Fate)
		}
	}
	return nil
}

// against names the earlier rows that a member conflicts with: those that change a file of the conflict.
func against(ctx context.Context, built bot.Build, rows map[int]bot.CuratedRow, aboard []bot.MemberBuild, m bot.MemberBuild) (string, error) {
	var numbers []string
	for _, earlier := range aboard {
		brings, err := built.Contribution(ctx, earlier.BuildMember)
		if err != nil {
			return "", fmt.Errorf("asking what !%d changes: %w", earlier.Number, err)
		}
		if slices.ContainsFunc(m.Files, func(file string) bool { return slices.Contains(brings.Files, file) }) {
			numbers = append(numbers, fmt.Sprint(rows[earlier.Number].RowNo))
		}
	}
	switch len(numbers) {
	case 0: // say, a folder where the other has a file
		return "earlier rows", nil
	case 1:
		return "row " + numbers[0], nil
	}
	return "rows " + strings.Join(numbers[:len(numbers)-1], ", ") + " and " + numbers[len(numbers)-1], nil
}

// files lists a few file names.
func files(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
