package clustertest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchbot/batchbot/store/clustertest"
)

// named is a server that says its name to whoever connects.
func named(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write([]byte(name + "\n"))
				_, _ = io.Copy(io.Discard, conn) // until the other side has enough
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func TestFrontFollowsThePrimary(t *testing.T) {
	t.Parallel()
	primary := atomic.Pointer[string]{}
	lead := func(address string) { primary.Store(&address) }
	one, two := named(t, "one"), named(t, "two")
	lead(one)
	front := clustertest.Follow(t, func(context.Context) string { return *primary.Load() })
	connect := func() (conn net.Conn, name string) {
		t.Helper()
		conn, err := net.Dial("tcp", front.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		name, _ = bufio.NewReader(conn).ReadString('\n') // empty: it was closed
		return conn, name
	}

	old, name := connect()
	if name != "one\n" {
		t.Fatalf("connected to %q", name)
	}
	lead("")
	if err := old.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := old.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a connection to a primary that is gone lives on: %d, %v", n, err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection to a primary that is gone was left open")
	}
	if _, name := connect(); name != "" {
		t.Errorf("without a primary connected to %q", name)
	}
	lead(two)
	clustertest.Eventually(t, 30*time.Second, "the new primary to answer", func() bool {
		_, name := connect()
		return name == "two\n"
	})
}
