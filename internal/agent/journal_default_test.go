package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

func TestJournalLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ options, limits, want int64 }{
		"default":             {0, 0, journal.DefaultMaxBytes},
		"options":             {1 << 40, 0, 1 << 40},
		"limits lower":        {0, 1000, 1000},
		"limits do not raise": {1000, 1 << 40, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := journal.WithDefaults(&journal.Options{Journal: struct{ journal.Journal }{}, MaxBytes: tc.options})
			require.Equal(
				t,
				tc.want,
				maxJournalBytes(o, &run{root: &Agent{Options: Options{Limits: Limits{JournalBytes: tc.limits}}}}),
			)
		})
	}
}
