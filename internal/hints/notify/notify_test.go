package notify

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
)

func open(t *testing.T, url string) *Bus {
	t.Helper()
	b, err := Open(url, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func TestConformance(t *testing.T) {
	url := postgrestest.Start(t).Create(t, "hints")
	hintstest.Run(t, func(t *testing.T) hints.Bus { return open(t, url) })
}

func TestOpenRejects(t *testing.T) {
	_, err := Open("postgres://localhost:bad/x", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "open hints: ")
}

// TestReconnect checks that hints pass again after the server ended all connections of the bus.
func TestReconnect(t *testing.T) {
	url := postgrestest.Start(t).Create(t, "hints")
	b := open(t, url)
	var got atomic.Int64
	_, err := b.Subscribe("a", func([]byte) { got.Add(1) })
	require.NoError(t, err)
	passes := func() bool {
		_ = b.Publish("a", []byte("x"))
		return got.Load() > 0
	}
	require.Eventually(t, passes, 30*time.Second, 10*time.Millisecond)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(
		t.Context(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agent-runner hints' AND datname = current_database()",
	)
	require.NoError(t, err)
	got.Store(0)
	require.Eventually(t, passes, 30*time.Second, 10*time.Millisecond)
}
