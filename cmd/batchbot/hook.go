package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/githost/gitlab"
)

func (s shell) hookCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "hook",
		Short: "Create or repair the webhooks of GitLab projects",
		Long:  `Creates or repairs the webhooks of GitLab projects. GitHub needs none of this: a GitHub App has one webhook for all its repositories.`,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	create := &cobra.Command{
		Use:   "create [HOST/]GROUP/PROJECT…",
		Short: "Give projects the webhook the bot needs; again does no harm",
		Long: `Gives each project a webhook with the right address, events and secret, or mends the one it has. The token of the settings file needs the
role of a maintainer in the project. The address is public_url followed by the host's webhook path.`,
	}
	file := configFlag(create)
	all := create.Flags().Bool("all", false, "every project the tokens give access to")
	create.Args = func(c *cobra.Command, args []string) error {
		if (len(args) == 0) != *all {
			return usageError{errors.New("hook create wants projects, GROUP/PROJECT, or --all")}
		}
		return nil
	}
	create.RunE = func(c *cobra.Command, args []string) error { return s.hookCreate(c.Context(), *file, args) }
	c.AddCommand(create)
	return c
}

// hookCreate gives the named projects, or all where none is named, their webhook.
func (s shell) hookCreate(ctx context.Context, file string, names []string) error {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	if settings.PublicURL == "" {
		return fmt.Errorf("%s: public_url is missing: it is the address the webhooks are sent to", file)
	}
	return ensureHooks(ctx, settings, names, s.stdout)
}

// ensureHooks gives the named projects of all GitLab hosts, or all where none is named, their webhook and prints what became of each.
func ensureHooks(ctx context.Context, settings config.Settings, names []string, w io.Writer) error {
	if !slices.ContainsFunc(settings.Hosts, func(h config.Host) bool { return h.Type == config.GitLab }) {
		return errors.New("no host of type gitlab is configured: a GitHub App has one webhook for all its repositories")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	done := make(map[string]bool)
	var failed []error
	for _, h := range settings.Hosts {
		if h.Type != config.GitLab {
			continue
		}
		host, err := newGitLab(h, nil, nil)
		if err != nil {
			return err
		}
		projects, err := host.ListRepositories(ctx)
		if err != nil {
			return fmt.Errorf("host %s: listing the projects of its token: %w", h.Name, err)
		}
		spec := gitlab.HookSpec{URL: settings.PublicURL + webhookPaths(settings.Hosts, h)[0], Secret: first(h.WebhookSecrets), SigningToken: first(h.SigningTokens)}
		for _, project := range projects {
			if name := named(names, h.Name, project.Path); name != "" {
				done[name] = true
			} else if len(names) > 0 {
				continue
			}
			result, err := host.EnsureHook(ctx, bot.Repository{RepositoryRef: project}, spec)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s/%s: %w", h.Name, project.Path, err))
				continue
			}
			fmt.Fprintf(table, "%s/%s\t%s\t%s\n", h.Name, project.Path, hookWords(result), spec.URL)
		}
	}
	for _, name := range names {
		if !done[name] {
			failed = append(failed, fmt.Errorf("no project %q: the token of no host of type gitlab gives access to it; its role must be maintainer", name))
		}
	}
	return errors.Join(append(failed, table.Flush())...)
}

// named is the name by which a project was asked for, "" if it was not.
func named(names []string, host, path string) string {
	i := slices.IndexFunc(names, func(n string) bool { return n == path || n == host+"/"+path })
	if i < 0 {
		return ""
	}
	return names[i]
}

func first(secrets []bot.Secret) bot.Secret {
	if len(secrets) == 0 {
		return ""
	}
	return secrets[len(secrets)-1] // of two the newer one stands last
}

func hookWords(r gitlab.HookResult) string {
	switch r.Outcome {
	case gitlab.HookCreated:
		return "created"
	case gitlab.HookRepaired:
		return "repaired: " + strings.Join(r.Mended, ", ")
	}
	return cmp.Or(strings.Join(r.Mended, ", "), "was right, its secret was set again")
}
