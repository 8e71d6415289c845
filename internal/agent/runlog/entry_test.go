package runlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
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

// TestRequestEditsAreBounded checks that a module that removes large messages from each request does
// not make the history larger than maxRequestEdits.
func TestRequestEditsAreBounded(t *testing.T) {
	t.Parallel()
	large := []abi.Message{abi.User(strings.Repeat("x", maxRequestEdits*2/3))}
	r := &reader{}
	first, second := []Edit{{Removed: large}}, []Edit{{Removed: large, Inserted: []abi.Message{abi.User("short")}}}
	r.bound(first)
	r.bound(second)
	require.Equal(t, []Edit{{Removed: large}}, first)
	require.Equal(t, []Edit{{Omitted: 1, Inserted: []abi.Message{abi.User("short")}}}, second)
}
