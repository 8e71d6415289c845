package runlog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEntryBefore checks the entry that EntryBefore returns for each phase of a log in which one
// entry spans two phases.
func TestEntryBefore(t *testing.T) {
	t.Parallel()
	var log [][]byte
	for _, lines := range []string{`{"phase":0}`, `{"phase":1}`, `{"phase":2}
{"phase":3}`, `{"phase":3}`, `{"phase":4}`} {
		log = append(log, []byte(lines+"\n"))
	}
	for phase, entry := range []int64{1, 1, 2, 3, 4, 5} {
		require.Equal(t, entry, EntryBefore(log, int64(phase)), "phase %d", phase)
	}
}
