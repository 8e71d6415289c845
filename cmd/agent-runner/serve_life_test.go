package main

import (
	"bytes"
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/serve"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// serveHere serves in this process until end is called. end returns the exit code; out and
// err collect the output.
func serveHere(t *testing.T, environment map[string]string, args ...string) (out, err *watch, end func() int) {
	t.Helper()
	out, err = &watch{more: make(chan struct{}, 1)}, &watch{more: make(chan struct{}, 1)}
	e := &cli.Env{
		In:     bytes.NewReader(nil),
		Out:    watchEnd{out, 0},
		Err:    watchEnd{err, 0},
		Getenv: func(name string) string { return environment[name] },
	}
	ctx, cancel := context.WithCancel(t.Context())
	code, ended := 0, make(chan error, 1)
	go func() {
		defer close(ended)
		code = execute(ctx, e, append([]string{"serve"}, args...))
	}()
	require.True(t, err.wait("serving at ", ended), err.all.String())
	return out, err, func() int {
		cancel()
		<-ended
		return code
	}
}

// TestServe checks that a server that ran an agent sends its spans and leaves no goroutine when
// it ends. It also checks that a restarted server deletes runs older than --retention, and that a
// server rejects a database of a newer version. The test is not parallel, because it counts
// goroutines.
func TestServe(t *testing.T) {
	spans := newSpanCollector(t)
	before := goleak.IgnoreCurrent()
	where := filepath.Join(t.TempDir(), "p.db")
	environment := map[string]string{
		hosting.EnvOTLP:     spans.URL,
		serve.EnvListen:     "127.0.0.1:0",
		hosting.EnvCacheDir: testcache.Modules(),
	}
	out, errs, end := serveHere(t, environment, "--store", where, "--model", "echo", "--log", "off")
	require.True(t, errs.wait("in a browser", nil))
	at := servingAt.FindStringSubmatch(errs.all.String())[1]
	transport := &http.Transport{}
	connect := func(key string) *client.Client {
		c, err := client.New(at, key, &client.Options{HTTP: &http.Client{Transport: transport}})
		require.NoError(t, err)
		return c
	}
	operator := connect(strings.TrimSpace(out.all.String()))
	_, err := operator.CreateTenant(t.Context(), &api.CreateTenant{ID: "acme", Policy: &api.Policy{Models: []string{"*"}}})
	require.NoError(t, err)
	key, err := operator.CreateKey(t.Context(), "acme", &api.CreateKey{Name: "first"})
	require.NoError(t, err)
	tenant := connect(key.Secret)
	_, err = tenant.PutAgent(t.Context(), "sums", []byte("model: {name: m}"))
	require.NoError(t, err)
	var ran []string
	for range 2 {
		run, err := tenant.StartRun(t.Context(), &api.StartRun{Agent: "sums", Input: "Use calculator."}, "")
		require.NoError(t, err)
		ran = append(ran, run.ID)
		var last abi.Event
		for last, err = range tenant.Follow(t.Context(), run.ID, 0) {
			require.NoError(t, err)
		}
		require.Equal(t, abi.RunStop, last.FinishReason)
	}
	transport.CloseIdleConnections()
	require.Zero(t, end(), errs.all.String())
	require.Contains(t, errs.all.String(), "ended; all requests and runs finished")
	require.Equal(t, 2, strings.Count(strings.Join(spans.got(), " "), "execute_tool calculator"), spans.got())
	require.Contains(t, spans.got(), "invoke_agent sums")
	spans.Close() // ends the connections to the collector, whose goroutines goleak would report
	goleak.VerifyNone(t, before)

	// Runs older than the retention are deleted, and other runs remain.
	db, err := sql.Open("sqlite", where)
	require.NoError(t, err)
	_, err = db.Exec(
		"UPDATE runs SET created_ms = created_ms - 31 * 86400000, updated_ms = updated_ms - 31 * 86400000 WHERE id = ?",
		ran[0],
	)
	require.NoError(t, err)
	_, errs, end = serveHere(t, environment, "--store", where, "--retention", "30d", "--log", "off")
	var left []string
	require.Eventually(t, func() bool {
		left = nil
		rows, err := db.Query("SELECT id FROM runs")
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			left = append(left, id)
		}
		return len(left) == 1 && rows.Err() == nil
	}, time.Minute, 5*time.Millisecond)
	require.Equal(t, ran[1:], left)
	require.Zero(t, end(), errs.all.String())

	// A server does not open a store of a later version.
	_, err = db.Exec("INSERT INTO migrations (name, contract) VALUES ('9999_next.sql', 1)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var log bytes.Buffer
	e := &cli.Env{
		In:     bytes.NewReader(nil),
		Out:    &log,
		Err:    &log,
		Getenv: func(name string) string { return environment[name] },
	}
	require.Equal(t, cli.ExitUsage, execute(t.Context(), e, []string{"serve", "--store", where}))
	require.Contains(t, log.String(), "a newer version of agent-runner created the database; use that version")
	require.NotContains(t, log.String(), "serving")
}
