package runlog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// TestEntryBefore checks the result of EntryBefore for each phase of a log in which one entry spans
// two phases.
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

// TestRestoredSettings checks that a log has the model and the limits that before_agent set, and
// that the head of each phase does not repeat them.
func TestRestoredSettings(t *testing.T) {
	t.Parallel()
	s := &State{Phase: PhaseStep, Messages: message.NewList(message.NewRevisions(), nil),
		Model:  &Model{Name: "large", Params: abi.Params{"n": []byte("1")}},
		Limits: &abi.RunLimits{MaxSteps: 3, Tools: map[string]int{"t": 1}}}
	e := NewEntry()
	e.Fixed, e.Head = FixedOf(s), HeadOf(s)
	require.Nil(t, e.Head.Model)
	require.True(t, e.Fixed.Same(FixedOf(s)))
	line, err := json.Marshal(e)
	require.NoError(t, err)
	restored, _, err := Restore([][]byte{append(line, '\n')})
	require.NoError(t, err)
	require.Equal(t, s.Model, restored.Model)
	require.Equal(t, s.Limits, restored.Limits)
}

// TestRequestEditsAreBounded checks a module that removes large messages from each request. The
// history must not become larger than maxRequestEdits.
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

// TestRequestsOfRepeatedCalls checks the edits of an inner ring that is called twice because a
// wrapper repeats its call. They must apply to the request as the outer ring left it.
func TestRequestsOfRepeatedCalls(t *testing.T) {
	t.Parallel()
	call := func(entry string, attempt int, splice string) *RecordedCall {
		d := &RecordedCall{attempt: attempt}
		d.What, d.Entry = string(contract.HookBeforeModel), entry
		d.Answer = json.RawMessage(`{"request":{"messages":{"splice":[` + splice + `]}}}`)
		return d
	}
	const insert, replace = `{"at":0,"insert":[{"role":"system","content":"s"}]}`,
		`{"at":1,"remove":1,"insert":[{"role":"user","content":"b"}]}`
	calls := []*RecordedCall{
		call("outer", 1, insert), call("inner", 1, replace), call("inner", 2, replace), call("innermost", 2, replace),
	}
	r := &reader{messages: []abi.Message{abi.User("a")}, outer: map[int][]abi.Message{}, requests: map[int][]abi.Message{}}
	var removed []string
	for _, c := range calls {
		r.edit(c)
		require.Len(t, c.Edits, 1, c.Entry)
		for _, m := range c.Edits[0].Removed {
			removed = append(removed, c.Entry+" "+m.Content.String())
		}
	}
	require.Equal(t, []string{"inner a", "inner a", "innermost b"}, removed)
}
