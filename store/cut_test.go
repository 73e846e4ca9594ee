package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/bot"
	"github.com/batchbot/batchbot/store"
)

// cutter passes connections on to a server and, once armed, cuts one at its COMMIT.
type cutter struct {
	server string
	armed  atomic.Int32 // when the next COMMIT is cut: 0 = not at all
	spared atomic.Int32 // COMMITs to let pass before
	cuts   atomic.Int32
}

const (
	beforeServer = 1 // the server never sees the COMMIT and rolls back
	afterServer  = 2 // the server has committed, and its answer is lost
)

// front is the address that clients connect to.
func (c *cutter) front(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return listener.Addr().String()
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		_ = client.Close()
		return
	}
	end := func() { _, _ = client.Close(), server.Close() }
	var last atomic.Bool // the server's next answer is that of the COMMIT to cut
	go func() {
		defer end()
		copyUntil(client, server, func([]byte) bool { return last.Load() })
	}()
	defer end()
	copyUntil(server, client, func(packet []byte) bool {
		if !bytes.HasSuffix(packet, []byte("\x03COMMIT")) {
			return false
		}
		if c.armed.Load() != 0 && c.spared.Add(-1) >= 0 {
			return false
		}
		when := c.armed.Swap(0)
		if when != 0 {
			c.cuts.Add(1)
			last.Store(true)
		}
		return when == beforeServer
	})
}

// copyUntil passes on what comes, up to a packet that stop wants to keep.
func copyUntil(to, from net.Conn, stop func(packet []byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if stop(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// A COMMIT whose answer is lost may have happened: the store looks, and does again only what did not happen.
func TestConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	cutAtCommit(t, mysqlServer)
}

func cutAtCommit(t *testing.T, server *server) {
	cfg := server.empty(t)
	direct, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = direct.Close() }()
	count := func(query string) (n int) {
		t.Helper()
		if err := direct.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	cut := &cutter{server: cfg.Addr}
	cfg.Addr = cut.front(t)
	s, err := store.Open(t.Context(), store.Options{Driver: store.MySQL, DSN: cfg.FormatDSN(), Env: cfg.DBName})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	repo, err := s.UpsertRepository(t.Context(), bot.RepositoryRef{Host: "forge", ExternalID: 1, Path: "fruit/basket"})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		target  string
		when    int32
		retries int64 // of a transaction that did not happen
	}{{"early", beforeServer, 1}, {"late", afterServer, 0}} {
		queue, err := s.UpsertQueue(t.Context(), repo.ID, bot.DefaultQueueSettings(c.target), "")
		if err != nil {
			t.Fatal(err)
		}
		do := func(what string, spared int32, act func() error) {
			t.Helper()
			cuts, retries := cut.cuts.Load(), s.Stats().Retries
			cut.spared.Store(spared)
			cut.armed.Store(c.when)
			if err := act(); err != nil {
				t.Errorf("%s, cut %s: %v", what, c.target, err)
			}
			if cuts, retries = cut.cuts.Load()-cuts, s.Stats().Retries-retries; cuts != 1 || retries != c.retries {
				t.Errorf("%s, cut %s: %d cuts, done again %d times, want %d", what, c.target, cuts, retries, c.retries)
			}
		}
		// The first transaction records what the host says about the merge request, which may be done again any time.
		do("admission", 1, func() error {
			result, err := s.Apply(t.Context(), bot.Application{
				OperationID: c.target, QueueID: queue.ID, Repository: repo, Admit: true, Lane: bot.LaneNormal, ExpiresIn: time.Hour,
				MR:      bot.MRSnapshot{Number: i + 1, HeadSHA: "abc", Target: c.target, State: bot.MROpen},
				Command: bot.CommandRef{RequestID: "forge:issue:1:" + c.target, By: "ann", Verb: "batch"},
			})
			if err == nil && (result.Outcome != bot.ApplyDone || result.Operation.ID != c.target) {
				t.Errorf("cut %s: outcome %d, operation %q", c.target, result.Outcome, result.Operation.ID)
			}
			return err
		})
		var claimed bot.ClaimResult
		do("claim", 0, func() (err error) {
			claimed, err = s.Claim(t.Context(), bot.ClaimSpec{QueueID: queue.ID, Kind: bot.BatchFresh, Limit: 5, Token: "0badcafe" + c.target, Timeout: time.Hour})
			return err
		})
		if claimed.Outcome != bot.ClaimDone || len(claimed.Members) != 1 {
			t.Fatalf("cut %s: claim: %s, %d members", c.target, claimed.Outcome, len(claimed.Members))
		}
		do("settlement", 0, func() error {
			ok, err := s.Settle(t.Context(), bot.Settlement{Guard: claimed.Batch.Guard(), Status: bot.BatchSucceeded, Code: bot.CodeLanded,
				Members: []bot.MemberOutcome{{OperationID: c.target, To: bot.OperationMerged, Reason: bot.ReasonLanded}}})
			if err == nil && !ok {
				t.Errorf("cut %s: the settlement says that somebody else did it", c.target)
			}
			return err
		})
		if n := count(`SELECT COUNT(*) FROM merge_batch`); n != i+1 {
			t.Errorf("%d batches after %d claims", n, i+1)
		}
		if n := count(`SELECT COUNT(*) FROM merge_batch_member WHERE event = 4`); n != i+1 {
			t.Errorf("%d landed after %d settlements", n, i+1)
		}
	}

	// Where nobody can look, it is told and not done again.
	cut.spared.Store(0)
	cut.armed.Store(afterServer)
	runs := 0
	err = store.Transaction(t.Context(), s, func(exec func(string, ...any) (int64, error)) error {
		runs++
		_, err := exec(`UPDATE repository SET comments_seen_at = comments_seen_at + 1`)
		return err
	}, nil)
	if n := count(`SELECT comments_seen_at FROM repository`); !errors.Is(err, store.ErrAmbiguous) || runs != 1 || n != 1 {
		t.Errorf("%d runs, counted to %d: %v", runs, n, err)
	}
}
