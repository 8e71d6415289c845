package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

func TestTenantMemory(t *testing.T) {
	process := account.New(account.LevelProcess, "", nil, 400<<20)
	m := newMemory(process)
	a, release := m.open("acme", 0)
	require.Equal(t, int64(100<<20), a.Limit(), "a quarter of the process's")
	b, releaseB := m.open("acme", 1<<20)
	require.Same(t, a, b)
	require.Equal(t, int64(1<<20), a.Limit(), "the quota of the tenant, which may change")
	require.NoError(t, a.TryReserve(1000))
	release()
	release()
	require.Positive(t, process.Used(), "another run uses the account")
	releaseB()
	require.Zero(t, process.Used())
}

// The end of what a run told is held in memory as far as its tenant may, with what AG-UI's
// clients get.
func TestTailIsCounted(t *testing.T) {
	a := account.New(account.LevelTenant, "", nil, 256<<10)
	lives := newLives()
	r := lives.add("run", "tenant", nil, nil)
	r.count(a)
	text := json.RawMessage(strings.Repeat("x", 10<<10))
	for seq := range int64(100) {
		r.put(line{seq: seq + 1, kind: abi.EventChunk, data: text, encoded: []json.RawMessage{text}})
		require.LessOrEqual(t, a.Used(), a.Limit())
	}
	_, _, _, ok := r.since(0)
	require.False(t, ok, "who is far behind reads from the store")
	lines, _, _, ok := r.since(99)
	require.True(t, ok)
	require.Len(t, lines, 1)
	lives.remove(r)
	require.Zero(t, a.Used())
}

// A slow reader pins a part of what a run told, not all of it.
func TestFollowersTakeAPartAtATime(t *testing.T) {
	r := newLives().add("run", "tenant", nil, nil)
	for seq := range int64(maxTail) {
		r.put(line{seq: seq + 1, kind: abi.EventChunk, data: make([]byte, 1<<10)})
	}
	var after int64
	for after < maxTail {
		lines, _, _, ok := r.since(after)
		require.True(t, ok)
		require.NotEmpty(t, lines)
		require.LessOrEqual(t, len(lines), maxTaken)
		require.Equal(t, len(lines), cap(lines), "they are not a part of the tail")
		require.Equal(t, after+1, lines[0].seq)
		after = lines[len(lines)-1].seq
	}
}
