package remote

import (
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// TestTryAgainIsSaidOnce checks that an error names the retry time once.
func TestTryAgainIsSaidOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)
	e := &cli.Env{Getenv: func(string) string { return "" }}
	for detail, want := range map[string]string{
		"the quota runs_per_day is reached: 20 of 20; try again in 1h0m0s": ", at 00:00:00",
		"the database is unavailable; try again":                           "; try again in 1h0m0s, at 00:00:00",
	} {
		require.Equal(t, want, remedy(e, &api.Problem{Detail: detail, RetryAfter: time.Hour}, "", now), detail)
	}
}
