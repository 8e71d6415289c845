package journal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestRewriteEntry checks which parts of a line of a log a rewrite changes, and that a second
// rewrite changes nothing.
func TestRewriteEntry(t *testing.T) {
	t.Parallel()
	r := &journal.Rewrite{
		Phases: map[int64]bool{1: true, 2: false},
		Message: func(id string) json.RawMessage {
			return map[string]json.RawMessage{"m": json.RawMessage(`{"id":"m","content":"now"}`)}[id]
		},
	}
	for name, tc := range map[string]struct{ before, after string }{
		"messages": {
			`{"phase":3,"messages":{"from":1,"items":[{"id":"m","content":"raw"},{"id":"n","role":"user","content":"raw"}]}}`,
			`{"phase":3,"messages":{"from":1,"items":[{"id":"m","content":"now"},{"id":"n","role":"user","content":""}]}}`,
		},
		"messages of a later phase": {`{"phase":4,"messages":{"from":1,"items":[{"id":"m","content":"raw"}]}}`, ""},
		"an answer": {
			`{"phase":2,"records":[{"phase":2,"record":{"k":{"answer":"raw","done":true}}},{"phase":3,"record":{"k":{"answer":1}}}]}`,
			`{"phase":2,"records":[{"phase":2,"record":{"k":{"erased":true,"done":true}}},{"phase":3,"record":{"k":{"answer":1}}}]}`,
		},
		"a failure":             {`{"phase":2,"records":[{"phase":2,"record":{"k":{"failed":{"code":"tool"}}}}]}`, ""},
		"an earlier response":   {`{"phase":1,"head":{"step":1,"respond":{"content":"raw"}}}`, `{"phase":1,"head":{"step":1}}`},
		"calls":                 {`{"phase":1,"calls":{"0":{}},"inner":{"0":{"log":[1]}}}`, `{"phase":1}`},
		"calls of a round":      {`{"phase":2,"calls":{"0":{}},"inner":{"0":{"log":[1]}}}`, ""},
		"a run-local value":     {`{"phase":2,"records":[{"phase":2,"locals":[{"key":"k","value":"raw"}]}]}`, ""},
		"an interrupt's answer": {`{"phase":2,"records":[{"phase":2,"asked":{"answers":{}}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := `{"phase":7}` + "\n" + tc.before + "\n"
			now, err := r.Entry([]byte(before))
			require.NoError(t, err)
			if tc.after == "" {
				require.Equal(t, before, string(now))
				return
			}
			lines := strings.Split(string(now), "\n")
			require.Len(t, lines, 3)
			require.JSONEq(t, tc.after, lines[1])
			again, err := r.Entry(now)
			require.NoError(t, err)
			require.Equal(t, string(now), string(again))
		})
	}
}
