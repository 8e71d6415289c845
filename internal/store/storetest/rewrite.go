package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// testRewrites checks that a commit rewrites the log's entries, starting with the one that it
// names. It does so atomically, and only if the run's claimant commits.
func testRewrites(t *testing.T, open Opener) {
	const text = "amy@example.org"
	s, where := open(t, nil)
	other := again(t, where)
	large := strings.Repeat("x", 300<<10) // stored in pieces
	entry := func(answer string) []byte {
		return fmt.Appendf(nil, `{"phase":0,"records":[{"phase":0,"record":{"tool/1#1":{"answer":%q,"done":true}}}]}`, answer)
	}
	const erased = `{"phase":0,"records":[{"phase":0,"record":{"tool/1#1":{"erased":true,"done":true}}}]}`
	require.NoError(t, s.Create(t.Context(),
		&journal.Creation{ID: "r", Agent: "a", Title: text, Owner: "me", LeaseTTL: lease, Log: entry(text)}))
	change := func(epoch, n int64, log []byte, r *journal.Rewrite) error {
		return s.Commit(t.Context(),
			&journal.Commit{Run: "r", Epoch: epoch, Entry: n, Log: log, First: 1, LeaseTTL: lease, Rewrite: r})
	}
	require.NoError(t, change(1, 2, entry(large+text), nil))
	require.NoError(t, change(1, 3, entry(text), nil))
	logs := func() []string {
		stored, err := other.Load(t.Context(), "r")
		require.NoError(t, err)
		var out []string
		for _, b := range stored.Log {
			out = append(out, strings.TrimSpace(string(b)))
		}
		return out
	}
	before := logs()

	rewrite := func(first int64, title *string) *journal.Rewrite {
		return &journal.Rewrite{First: first, Title: title, Phases: map[int64]bool{0: false},
			Message: func(string) json.RawMessage { return nil }}
	}
	last := []byte(`{"phase":1}`)
	require.ErrorIs(t, change(9, 4, last, rewrite(2, nil)), journal.ErrFenced)
	require.Equal(t, before, logs(), "a commit that is rejected rewrites nothing")
	require.NoError(t, change(1, 4, last, rewrite(2, nil)))
	require.NoError(t, change(1, 4, last, rewrite(2, nil)), "the response was lost, and the commit is repeated")
	after := logs()
	require.Equal(t, before[0], after[0])
	require.JSONEq(t, erased, after[1])
	require.JSONEq(t, erased, after[2])
	title := func() string {
		info, err := other.Run(t.Context(), "r")
		require.NoError(t, err)
		require.EqualValues(t, len(logs()), info.Entries)
		return info.Title
	}
	require.Equal(t, text, title())

	renamed := "renamed"
	require.NoError(t, change(1, 5, last, rewrite(1, &renamed)))
	require.JSONEq(t, erased, logs()[0])
	require.Equal(t, after[1:], logs()[1:4])
	require.Equal(t, renamed, title())
}
