package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batchbot/batchbot/config"
	"github.com/batchbot/batchbot/schema"
)

func (s shell) migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema up to date",
		Long: `Brings the database's schema up to date. Migrations only add, so instances of the version before go on working and may be upgraded
one by one afterwards.`,
	}
	file := configFlag(c)
	status := c.Flags().Bool("status", false, "only say whether the schema is up to date, and fail if it is not")
	c.RunE = func(c *cobra.Command, _ []string) error { return s.migrate(c.Context(), *file, *status) }
	return c
}

func (s shell) migrate(ctx context.Context, file string, statusOnly bool) error {
	settings, err := config.Load(file, s.environ)
	if err != nil {
		return err
	}
	db, err := openStore(ctx, settings, !statusOnly)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := db.CheckMigrated(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "the schema is up to date: version %d\n", schema.Version)
	return nil
}
