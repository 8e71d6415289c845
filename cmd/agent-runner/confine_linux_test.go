package main

import (
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agent-runner/agent-runner/host/api"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
)

// TestConfinedStores checks that confined servers can compile a script, run an agent with it,
// end, and serve again after a restart, with SQLite and with PostgreSQL by TCP and by a Unix
// socket.
func TestConfinedStores(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts servers")
	}
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { confinedLife(t, filepath.Join(t.TempDir(), "p.db")) })
	t.Run("PostgreSQL", func(t *testing.T) {
		byTCP := postgrestest.Start(t).Create(t, "confined")
		confinedLife(t, byTCP)

		db, err := sql.Open("pgx", byTCP)
		require.NoError(t, err)
		defer db.Close()
		var dir string
		require.NoError(t, db.QueryRow("SHOW unix_socket_directories").Scan(&dir))
		_, err = db.Exec("CREATE DATABASE second")
		require.NoError(t, err)
		at, err := url.Parse(byTCP)
		require.NoError(t, err)
		confinedLife(t, "postgres://postgres@/second?"+url.Values{"host": {dir}, "port": {at.Port()}}.Encode())
	})
}

// confinedLife starts a confined server twice with the same store. Each time it uploads a script
// and runs an agent with it.
func confinedLife(t *testing.T, store string) {
	dir, key := t.TempDir(), ""
	for range 2 {
		out := &watch{more: make(chan struct{}, 1)}
		cmd := exec.Command("agent-runner", "serve", "--listen", "127.0.0.1:0", "--store", store, "--model", "echo",
			"--connect-ports", "443", "--log", "off")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
		cmd.Stdout, cmd.Stderr = watchEnd{out, 0}, watchEnd{out, 1}
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		require.True(t, out.wait("serving at ", ended), out.all.String())
		require.True(t, out.wait("secrets: tenants cannot store any", ended), out.all.String())
		if key == "" {
			require.True(t, out.wait("ar_", ended), out.all.String())
		}
		out.mu.Lock()
		at := servingAt.FindStringSubmatch(out.one[1].String())[1]
		if key == "" {
			key = strings.TrimSpace(out.one[0].String())
		}
		out.mu.Unlock()
		c, err := client.New(at, key, nil)
		require.NoError(t, err)
		_, err = c.PutModule(t.Context(), &client.Upload{
			Name: "mine",
			Type: "application/typescript",
			Body: strings.NewReader("export default { afterAgent() { return {}; } };"),
		})
		require.NoError(t, err)
		_, err = c.PutAgent(t.Context(), "sums", []byte("model: {name: m}\nmiddlewares: [{module: mine}]"))
		require.NoError(t, err)
		run, err := c.StartRun(t.Context(), &api.StartRun{Agent: "sums", Input: "Use calculator."}, "")
		require.NoError(t, err)
		var end abi.Event
		for end, err = range c.Follow(t.Context(), run.ID, 0) {
			require.NoError(t, err)
		}
		require.Equal(t, abi.RunStop, end.FinishReason)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, <-ended, out.all.String())
	}
}
