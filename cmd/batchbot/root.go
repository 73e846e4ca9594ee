package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line itself is wrong
	exitDiffer = 3 // reconcile: rows and host differ still
)

// shell is what a command touches of its surroundings.
type shell struct {
	environ        []string
	stdout, stderr io.Writer
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// run performs one command line and returns the exit code. Every error is one line on stderr; a list of mistakes is one line each.
func (s shell) run(ctx context.Context, args []string) int {
	root := s.root()
	root.SetArgs(args)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(s.stderr, "batchbot: %s\n", strings.TrimSpace(line))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[differError](err); ok {
		return exitDiffer
	}
	return exitFailed
}

func (s shell) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "batchbot",
		Short: "Lands many approved merge requests as one",
		Long: `Developers comment /batch on a merge request. Once it is approved it enters the waiting set of its target branch;
each round lands everything that waits there as one aggregated merge request, after one run of CI.`,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see `%s --help`", err, c.CommandPath())}
	})
	root.AddCommand(s.serveCommand(), s.migrateCommand(), s.queueCommand(), s.batchCommand(), s.roundCommand(), s.reconcileCommand(), s.jobCommand(), s.trainCommand(), s.hookCommand(), s.versionCommand(), s.demoCommand(), s.demoBotCommand(), s.fakehostCommand())
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArguments
		}
	}
	return root
}

// noArguments refuses words that are no flags, and finds the command that was meant.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasParent() {
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return usageError{fmt.Errorf("no command %q: did you mean %s?", args[0], strings.Join(near, " or "))}
		}
		return usageError{fmt.Errorf("no command %q: see `batchbot --help`", args[0])}
	}
	return usageError{fmt.Errorf("%s takes no argument such as %q: see `%s --help`", c.CommandPath(), args[0], c.CommandPath())}
}

// configFlag is the flag of every command that reads the settings.
func configFlag(c *cobra.Command) *string {
	return c.Flags().String("config", "batchbot.yml", "settings `FILE`; batchbot.example.yml explains every key")
}
