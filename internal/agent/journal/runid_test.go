package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunIDs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	require.Regexp(t, `^run_697deec0[a-z2-7]{18}$`, runID(at))
	require.NotEqual(t, runID(at), runID(at))
	require.NotEqual(t, NewRunID(), NewRunID())
	before := runID(at)
	for range 40 {
		at = at.Add(time.Second)
		id := runID(at)
		require.Less(t, before, id, "ids sort by time")
		require.Len(t, id, len(before))
		before = id
	}
}
