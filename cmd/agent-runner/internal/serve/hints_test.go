package serve

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/natsbus"
	"github.com/agent-runner/agent-runner/internal/hints/notify"
)

func TestClusterFlagsReject(t *testing.T) {
	const database = "postgres://127.0.0.1:1/x"
	missing := filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, c := range []struct {
		name, store, want string
		flags             clusterFlags
	}{
		{"both", database, "mutually exclusive", clusterFlags{nats: "nats://x", listen: "127.0.0.1:0"}},
		{"join alone", database, "need --cluster-listen", clusterFlags{join: []string{"x:1"}}},
		{"password alone", database, "need --cluster-listen", clusterFlags{passwordFile: file}},
		{"SQLite", "a.db", "share a PostgreSQL database", clusterFlags{listen: "127.0.0.1:0"}},
		{"SQLite and NATS", "a.db", "share a PostgreSQL database", clusterFlags{nats: "nats://x"}},
		{"scheme", database, "want URLs such as nats://", clusterFlags{nats: "http://x"}},
		{"no password", database, "needs a password", clusterFlags{listen: "0.0.0.0:0"}},
		{"password file", database, "--cluster-password-file", clusterFlags{listen: "0.0.0.0:0", passwordFile: missing}},
		{"one of three", database, "belong together", clusterFlags{listen: "127.0.0.1:0", cert: file}},
		{"certificate", database, "--cluster-cert", clusterFlags{listen: "127.0.0.1:0", cert: file, key: file, ca: file}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.flags.open(func(string) string { return "" }, c.store, slog.New(slog.DiscardHandler))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := (&clusterFlags{listen: "127.0.0.1:0", passwordFile: missing}).open(os.Getenv, database, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestClusterFlagsOpen checks which bus the flags select, and which ports it connects to.
func TestClusterFlagsOpen(t *testing.T) {
	const database = "postgres://127.0.0.1:1/x"
	for _, c := range []struct {
		name, store, env string
		flags            clusterFlags
		want             hints.Bus
		ports            []uint16
	}{
		{name: "SQLite", store: "a.db", want: hints.None{}},
		{name: "NOTIFY", store: database, want: &notify.Bus{}},
		{name: "NATS", store: database, flags: clusterFlags{nats: "nats://127.0.0.1:1,tls://127.0.0.1"},
			want: &natsbus.Bus{}, ports: []uint16{1, 4222}},
		{name: "environment", store: database, env: "nats://127.0.0.1:2", want: &natsbus.Bus{}, ports: []uint16{2}},
		{name: "embedded", store: database, env: "nats://127.0.0.1:2",
			flags: clusterFlags{listen: "127.0.0.1:0", join: []string{"127.0.0.1:3"}}, want: &natsbus.Bus{}, ports: []uint16{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			getenv := func(string) string { return c.env }
			bus, err := c.flags.open(getenv, c.store, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			defer bus.Close()
			require.IsType(t, c.want, bus)
			if c.store == database {
				require.Equal(t, c.ports, c.flags.ports(getenv))
			}
		})
	}
}
