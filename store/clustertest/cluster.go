package clustertest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Cluster is a group of nodes.
type Cluster struct{ nodes []*node }

// node is one server of the group.
type node struct {
	config  *mysql.Config
	db      *sql.DB
	pidFile string
}

// patience is how long a node may take to say what it thinks of the group. One that takes longer counts as gone.
const patience = time.Second

// Open returns the group that TEST_CLUSTER names, with all its nodes online.
func Open(t testing.TB) *Cluster {
	t.Helper()
	given := strings.Fields(os.Getenv("TEST_CLUSTER"))
	if len(given) == 0 {
		t.Fatal("TEST_CLUSTER names no MySQL group: run `make test-cluster`, which starts one")
	}
	c := &Cluster{}
	for _, dsn := range given {
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.Timeout, config.ReadTimeout, config.Logger = patience, patience, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{config: config, db: sql.OpenDB(connector)}
		n.db.SetMaxOpenConns(2)
		t.Cleanup(func() { _ = n.db.Close() })
		c.nodes = append(c.nodes, n)
	}
	c.Whole(t)
	for _, n := range c.nodes {
		if err := n.db.QueryRowContext(t.Context(), `SELECT @@pid_file`).Scan(&n.pidFile); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// DSN is how a Store finds a database of the group through address.
func (c *Cluster) DSN(address, database string) string {
	return c.config(address, database).FormatDSN()
}

// Connect opens a database of the group through address, as a Store sets its sessions up; an empty name is no database.
func (c *Cluster) Connect(t testing.TB, address, database string) *sql.DB {
	t.Helper()
	config := c.config(address, database)
	config.ClientFoundRows, config.ParseTime, config.Logger = true, true, &mysql.NopLogger{}
	config.Params = map[string]string{"time_zone": "'+00:00'"}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (c *Cluster) config(address, database string) *mysql.Config {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", address, database
	config.User, config.Passwd = c.nodes[0].config.User, c.nodes[0].config.Passwd
	return config
}

// view is what one node that is online says of its group.
type view struct {
	online  int    // members
	primary string // address, empty while there is none that can be reached
}

func (n *node) view(ctx context.Context) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := n.db.QueryContext(ctx, `SELECT CONCAT(member_host, ':', member_port), member_role, member_state, member_id = @@server_uuid
		FROM performance_schema.replication_group_members`)
	if err != nil {
		return view{}, err
	}
	defer func() { _ = rows.Close() }()
	itself := false
	for rows.Next() {
		var address, role, state string
		var self bool
		if err := rows.Scan(&address, &role, &state, &self); err != nil {
			return view{}, err
		}
		if state != "ONLINE" {
			continue
		}
		v.online++
		itself = itself || self
		if role == "PRIMARY" {
			v.primary = address
		}
	}
	if err := rows.Err(); err != nil {
		return view{}, err
	}
	if !itself {
		return view{}, fmt.Errorf("node %s is not online", n.config.Addr)
	}
	return v, nil
}

// views asks all nodes at once; the view of one that does not answer, or is not online, is empty.
func (c *Cluster) views(ctx context.Context) []view {
	type answer struct {
		i int
		v view
	}
	answers := make(chan answer, len(c.nodes))
	for i, n := range c.nodes {
		go func() {
			v, _ := n.view(ctx) // which node it was and why shows when the group does not become whole
			answers <- answer{i, v}
		}()
	}
	all := make([]view, len(c.nodes))
	for range c.nodes {
		a := <-answers
		all[a.i] = a.v
	}
	return all
}

// Primary is the address of the node that a majority takes for the primary, empty if there is none. A node that was thrown out, or was asleep
// while another was elected, may still take itself for it.
func (c *Cluster) Primary(ctx context.Context) string {
	votes := make(map[string]int)
	for _, v := range c.views(ctx) {
		if v.primary != "" {
			votes[v.primary]++
		}
	}
	for address, n := range votes {
		if n > len(c.nodes)/2 {
			return address
		}
	}
	return ""
}

// Whole waits until every node is online and says the same of the group.
func (c *Cluster) Whole(t testing.TB) {
	t.Helper()
	var all []view
	Eventually(t, 3*time.Minute, "three nodes online that agree", func() bool {
		all = c.views(t.Context())
		return !slices.ContainsFunc(all, func(v view) bool { return v.online != len(c.nodes) || v.primary != all[0].primary || v.primary == "" })
	})
}

// Signal sends a signal to the node at address.
func (c *Cluster) Signal(t testing.TB, address string, signal syscall.Signal) {
	t.Helper()
	for _, n := range c.nodes {
		if n.config.Addr != address {
			continue
		}
		text, err := os.ReadFile(n.pidFile)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatalf("%s to node %s: %v", signal, address, err)
		}
		return
	}
	t.Fatalf("no node is at %q", address)
}

// Replace makes another node the primary, as one does before the maintenance of the old one.
func (c *Cluster) Replace(t testing.TB) {
	t.Helper()
	primary := c.Primary(t.Context())
	for _, n := range c.nodes {
		if n.config.Addr == primary {
			continue
		}
		db := c.Connect(t, n.config.Addr, "") // it waits for transactions to end: longer than a look at the group may take
		var said string
		if err := db.QueryRowContext(t.Context(), `SELECT group_replication_set_as_primary(@@server_uuid)`).Scan(&said); err != nil {
			t.Fatalf("make node %s the primary: %v", n.config.Addr, err)
		}
		return
	}
}

// Eventually polls until holds does, and fails the test when it still does not at the end of limit.
func Eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-end.C:
			t.Fatalf("waited %s in vain for %s", limit, what)
		case <-tick.C:
		}
	}
}
