package store_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batchbot/batchbot/schema"
	"github.com/batchbot/batchbot/store"
)

// migrateVariable makes the test binary an instance that opens the database it names, DRIVER PLACE, and migrates it.
const migrateVariable = "STORE_TEST_MIGRATE"

// migrateAsAProcess is such an instance: it says when it is ready, waits for the start and returns its exit status.
func migrateAsAProcess(place string) int {
	driver, place, _ := strings.Cut(place, " ")
	options := store.Options{Driver: store.Driver(driver), DSN: place}
	if options.Driver == store.SQLite {
		options.DSN, options.Path = "", place
	}
	ctx := context.Background()
	stores := make([]*store.Store, 2)
	for i := range stores {
		var err error
		if stores[i], err = store.Open(ctx, options); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Fprintln(os.Stdout, "ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	failed := make(chan error, len(stores))
	var group sync.WaitGroup
	for _, s := range stores {
		group.Go(func() {
			err := errors.Join(s.Migrate(ctx), s.CheckMigrated(ctx), s.Close())
			if err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Several programs of two instances each start on one empty database at the same moment: each step is run once, and all go on.
func TestProcessesMigrateAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	processes(t, mysqlServer)
}

func processes(t *testing.T, server *server) {
	cfg := server.empty(t)
	path := filepath.Join(t.TempDir(), "batchbot.db")
	for place, direct := range map[string]string{
		string(store.MySQL) + " " + cfg.FormatDSN(): cfg.FormatDSN(),
		string(store.SQLite) + " " + path:           "file:" + path,
	} {
		driver, _, _ := strings.Cut(place, " ")
		instances := make([]*exec.Cmd, 4)
		said := make([]bytes.Buffer, len(instances))
		starts := make([]func() error, len(instances))
		for i := range instances {
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), migrateVariable+"="+place)
			command.Stderr = &said[i]
			in, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("%s: an instance did not open the database: %v: %s", driver, command.Wait(), &said[i])
			}
			instances[i], starts[i] = command, in.Close
		}
		for _, start := range starts {
			if err := start(); err != nil {
				t.Error(err)
			}
		}
		for i, instance := range instances {
			if err := instance.Wait(); err != nil {
				t.Errorf("%s: %v: %s", driver, err, &said[i])
			}
		}
		db, err := sql.Open(driver, direct)
		if err != nil {
			t.Fatal(err)
		}
		var steps int
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM goose_db_version WHERE version_id > 0`).Scan(&steps); err != nil || steps != schema.Version {
			t.Errorf("%s: %d steps were run, want %d: %v", driver, steps, schema.Version, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
