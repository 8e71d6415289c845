package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
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

// TestTailCountsTowardMemory checks that the tail of a run, with its AG-UI encoding, counts toward
// its tenant's memory limit.
func TestTailCountsTowardMemory(t *testing.T) {
	a := account.New(account.LevelTenant, "", nil, 256<<10)
	lives := newActiveRuns(nil)
	r := lives.Add("run", "tenant", nil, nil)
	r.count(a)
	text := json.RawMessage(strings.Repeat("x", 10<<10))
	for seq := range int64(100) {
		r.append(Event{Seq: seq + 1, Type: abi.EventChunk, data: text, Encoded: []json.RawMessage{text}})
		require.LessOrEqual(t, a.Used(), a.Limit())
	}
	_, _, _, ok := r.Since(0)
	require.False(t, ok, "slow followers read from the store")
	lines, _, _, ok := r.Since(99)
	require.True(t, ok)
	require.Len(t, lines, 1)
	lives.remove(r)
	require.Zero(t, a.Used())
}

// TestFollowersReadInBatches checks that a slow follower holds only a batch of a run's events in
// memory.
func TestFollowersReadInBatches(t *testing.T) {
	r := newActiveRuns(nil).Add("run", "tenant", nil, nil)
	for seq := range int64(maxTail) {
		r.append(Event{Seq: seq + 1, Type: abi.EventChunk, data: make([]byte, 1<<10)})
	}
	var after int64
	for after < maxTail {
		lines, _, _, ok := r.Since(after)
		require.True(t, ok)
		require.NotEmpty(t, lines)
		require.LessOrEqual(t, len(lines), maxBatch)
		require.Equal(t, len(lines), cap(lines), "they are not a part of the tail")
		require.Equal(t, after+1, lines[0].Seq)
		after = lines[len(lines)-1].Seq
	}
}
