package natsbus

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
)

const password = "a password of the cluster"

func open(t *testing.T, o *Options) *Bus {
	t.Helper()
	b, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// TestEmbedded runs three embedded servers, of which the second and third join the first.
func TestEmbedded(t *testing.T) {
	var first string
	hintstest.Run(t, func(t *testing.T) hints.Bus {
		c := &Cluster{Listen: "127.0.0.1:0", Password: password}
		if first != "" {
			c.Join = []string{first}
		}
		b := open(t, &Options{Cluster: c})
		if first == "" {
			first = b.ClusterAddr().String()
		}
		return b
	})
}

// TestExternal uses a NATS server outside of the bus.
func TestExternal(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	defer s.Shutdown()
	require.True(t, s.ReadyForConnections(10*time.Second))
	hintstest.Run(t, func(t *testing.T) hints.Bus { return open(t, &Options{URL: s.ClientURL()}) })
}

// TestWrongPassword checks that a server with another password does not join.
func TestWrongPassword(t *testing.T) {
	first := open(t, &Options{Cluster: &Cluster{Listen: "127.0.0.1:0", Password: password}})
	second := open(t, &Options{Cluster: &Cluster{Listen: "127.0.0.1:0", Password: "another password",
		Join: []string{first.ClusterAddr().String()}}})
	require.Never(t, func() bool { return first.embedded.NumRoutes()+second.embedded.NumRoutes() > 0 },
		500*time.Millisecond, 50*time.Millisecond)
}

func TestOpenRejects(t *testing.T) {
	for _, c := range []struct {
		name, want string
		options    Options
	}{
		{"nothing", "want the URL", Options{}},
		{"both", "want the URL", Options{URL: "nats://x", Cluster: &Cluster{}}},
		{"prefix", "prefix", Options{URL: "nats://127.0.0.1:1", Prefix: "a*"}},
		{"address", "want HOST:PORT", Options{Cluster: &Cluster{Listen: "6222"}}},
		{"port", "want a port", Options{Cluster: &Cluster{Listen: "127.0.0.1:70000"}}},
		{"no password", "needs a password", Options{Cluster: &Cluster{Listen: "0.0.0.0:6222"}}},
		{"short password", "at least 16 bytes", Options{Cluster: &Cluster{Listen: "10.0.0.1:6222", Password: "secret"}}},
		{"join", `join "a": want HOST:PORT`, Options{Cluster: &Cluster{Listen: "127.0.0.1:0", Join: []string{"a"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(&c.options)
			require.ErrorContains(t, err, c.want)
		})
	}
}
