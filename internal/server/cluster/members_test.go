package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
	"github.com/agent-runner/agent-runner/internal/server/cluster"
)

// A database is the part of the database that the servers of a test use: their heartbeats, and
// whose leases were ended.
type database struct {
	mu    sync.Mutex
	seen  map[string]time.Time
	ended []string
}

// A node is a server of a test.
type node struct {
	*cluster.Members
	cut    func(bool) // cuts it off from the bus
	stop   func()     // ends it cleanly
	kill   func()     // ends it without a last heartbeat
	claims chan time.Time
}

// start starts a server that stores a heartbeat in the database each second.
func start(t *testing.T, n *hintstest.Network, db *database, name string) *node {
	bus, cut := n.Join()
	alive, kill := context.WithCancel(t.Context())
	running, stop := context.WithCancel(t.Context())
	s := &node{cut: cut, stop: stop, claims: make(chan time.Time, 100), kill: func() {
		cut(true)
		kill()
		stop()
	}}
	s.Members = cluster.New(&cluster.Options{
		Bus:    bus,
		Logger: slog.New(slog.DiscardHandler),
		Self:   func() cluster.Member { return cluster.Member{Owner: name, Node: "machine"} },
		Claim:  func(context.Context) { s.claims <- time.Now() },
		End: func(_ context.Context, heard []string) (out []string, err error) {
			db.mu.Lock()
			defer db.mu.Unlock()
			for owner, at := range db.seen {
				if time.Since(at) >= 1500*time.Millisecond && !slices.Contains(heard, owner) {
					delete(db.seen, owner)
					db.ended = append(db.ended, owner)
					out = append(out, owner)
				}
			}
			return out, nil
		},
	})
	go func() {
		for {
			db.mu.Lock()
			if alive.Err() == nil {
				db.seen[name] = time.Now()
			}
			db.mu.Unlock()
			select {
			case <-time.After(time.Second):
			case <-alive.Done():
				return
			}
		}
	}()
	go s.Watch(running)
	return s
}

func (d *database) dead() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ended)
}

// bubble runs a test with three servers a, b and c that have received each other's heartbeats.
func bubble(t *testing.T, test func(t *testing.T, db *database, a, b, c *node)) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{seen: map[string]time.Time{}}
		n := hintstest.NewNetwork(time.Millisecond)
		a, b, c := start(t, n, db, "a"), start(t, n, db, "b"), start(t, n, db, "c")
		time.Sleep(3*time.Second + 300*time.Millisecond)
		require.Len(t, a.List(), 3)
		require.Empty(t, db.dead())
		test(t, db, a, b, c)
	})
}

// TestKilled checks that the runs of a killed server can be claimed within 2 s, once.
func TestKilled(t *testing.T) {
	bubble(t, func(t *testing.T, db *database, a, b, c *node) {
		killed := time.Now()
		c.kill()
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"c"}, db.dead())
		require.Equal(t, 1, len(a.claims)+len(b.claims))
		var at time.Time
		select {
		case at = <-a.claims:
		case at = <-b.claims:
		}
		require.Less(t, at.Sub(killed), 2*time.Second)
		for _, m := range slices.Concat(a.List(), b.List()) {
			require.Equal(t, m.Owner == "c", m.Silent, "%s", m.Owner)
		}
	})
}

// TestCutOff checks that a server that is cut off only from the bus keeps its runs.
func TestCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, db *database, a, b, c *node) {
		c.cut(true)
		time.Sleep(10 * time.Minute)
		require.Empty(t, db.dead())
		require.Len(t, a.List(), 2)
		require.Len(t, c.List(), 0)
		c.cut(false)
		time.Sleep(time.Second)
		require.Len(t, a.List(), 3)
	})
}

// TestDatabaseLate checks that a server whose heartbeats are late only in the database keeps its
// runs.
func TestDatabaseLate(t *testing.T) {
	bubble(t, func(t *testing.T, db *database, a, b, c *node) {
		db.mu.Lock()
		db.seen["c"] = time.Now().Add(-time.Hour)
		db.mu.Unlock()
		time.Sleep(500 * time.Millisecond) // the next heartbeat is stored later
		require.Empty(t, db.dead())
	})
}

// TestEndedBefore checks that the runs of a server that ended before the other servers started can be
// claimed.
func TestEndedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{seen: map[string]time.Time{"old": time.Now().Add(-time.Hour)}}
		start(t, hintstest.NewNetwork(0), db, "a")
		time.Sleep(900 * time.Millisecond)
		require.Empty(t, db.dead())
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"old"}, db.dead())
	})
}

// TestCleanEnd checks that a server that ends cleanly is no longer listed.
func TestCleanEnd(t *testing.T) {
	bubble(t, func(t *testing.T, db *database, a, b, c *node) {
		c.stop()
		time.Sleep(100 * time.Millisecond)
		require.Len(t, a.List(), 2)
	})
}

// TestHostileBeats checks that invalid heartbeats are ignored and that the list is bounded.
func TestHostileBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hintstest.NewNetwork(0)
		a := start(t, n, &database{seen: map[string]time.Time{}}, "a")
		bus, _ := n.Join()
		publish := func(hint string) { require.NoError(t, bus.Publish("beat", []byte(hint))) }
		time.Sleep(time.Millisecond)
		for _, hint := range []string{"", "{", "null", `{"owner":""}`, `{"owner":1}`, `[]`,
			fmt.Sprintf(`{"owner":%q}`, strings.Repeat("x", 257)), fmt.Sprintf(`{"owner":"y","node":%q}`, strings.Repeat("x", 257))} {
			publish(hint)
		}
		time.Sleep(time.Millisecond)
		require.Len(t, a.List(), 1)
		for i := range 2000 {
			b, err := json.Marshal(cluster.Member{Owner: fmt.Sprint("o", i)})
			require.NoError(t, err)
			publish(string(b))
		}
		time.Sleep(time.Millisecond)
		require.Len(t, a.List(), 1024)
		time.Sleep(2 * time.Minute)
		require.Len(t, a.List(), 1)
	})
}
