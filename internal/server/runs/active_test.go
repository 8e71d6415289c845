package runs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestActiveRunTail checks that the tail of a run holds the newest events within its limits, and
// that events read from it do not change.
func TestActiveRunTail(t *testing.T) {
	t.Parallel()
	r := newActiveRuns(nil).Add("run", "tenant", nil, nil)
	var read []Event
	for seq := int64(1); seq <= 3*maxTail; seq++ {
		r.append(Event{Seq: seq, data: []byte("x")})
		if seq == maxTail {
			read, _, _, _ = r.Since(0)
		}
	}
	require.Len(t, read, maxBatch)
	for i, l := range read {
		require.Equal(t, int64(i+1), l.Seq)
	}
	_, _, _, ok := r.Since(2*maxTail - 1)
	require.False(t, ok, "older events are no longer in memory")
	lines, _, over, ok := r.Since(2 * maxTail)
	require.True(t, ok)
	require.False(t, over)
	require.Len(t, lines, maxBatch)
	require.Equal(t, int64(2*maxTail+1), lines[0].Seq)

	r.append(Event{Seq: 3*maxTail + 1, data: make([]byte, maxTailBytes)})
	lines, _, _, _ = r.Since(3 * maxTail)
	require.Len(t, lines, 1)
	require.Len(t, r.tail, 1)
}

func BenchmarkActiveRunTail(b *testing.B) {
	r := newActiveRuns(nil).Add("run", "tenant", nil, nil)
	b.ReportAllocs()
	for i := range b.N {
		r.append(Event{Seq: int64(i), data: []byte("x")})
	}
}
