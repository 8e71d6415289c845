package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestRecordNext checks that each phase counts its calls from 1, and that late calls of an earlier
// phase do not change the record of a later one.
func TestRecordNext(t *testing.T) {
	t.Parallel()
	first := New()
	first.BeginPass(first, nil)
	require.Equal(t, "a/b#1", first.NextKey("a", "b"))
	require.Equal(t, "a/b#2", first.NextKey("a", "b"))
	first.Save("a/b#1", nil, Verdict{})
	second := New()
	second.BeginPass(first, nil)
	require.Equal(t, "a/b#1", second.NextKey("a", "b"))
	_, _, done := LoadAs[abi.Result](second, "a/b#1")
	require.False(t, done)
	first.NextKey("a", "b")
	first.Save("a/b#2", nil, Verdict{})
	require.Equal(t, "a/b#2", second.NextKey("a", "b"))
	_, _, done = LoadAs[abi.Result](second, "a/b#2")
	require.False(t, done)
	second.BeginPass(second, nil)
	require.Equal(t, "a/b#1", second.NextKey("a", "b"))
}

// TestEditApprovesOnce checks that Approve does nothing when a call is examined again, for example
// after a pause of its tool. It must not override a later decision.
func TestEditApprovesOnce(t *testing.T) {
	t.Parallel()
	r := New()
	answer := func(arguments string, a abi.Approval) {
		r.approvals = append(r.approvals, Approval{CallID: "c", Owner: "host", Tool: "t", Arguments: arguments, Approval: a})
	}
	edited, call := "{}", abi.Call{ID: "c", Name: "t", Arguments: "{}"}
	answer(`{"a":1}`, abi.Approval{Decision: abi.Edit, Arguments: &edited})
	edit := r.approvals[0]
	for range 3 {
		r.Approve(call, "host", &edit)
		latest, n := r.Decision(call, "host")
		require.Equal(t, abi.Approve, latest.Approval.Decision)
		require.Equal(t, 1, n)
	}
	answer(edited, abi.Approval{Decision: abi.Reject})
	r.Approve(call, "host", &edit)
	latest, _ := r.Decision(call, "host")
	require.Equal(t, abi.Reject, latest.Approval.Decision, "the later answer about the edited call")

	answer(`{"a":1}`, abi.Approval{Decision: abi.Edit, Arguments: &edited})
	r.Approve(call, "host", &edit)
	latest, _ = r.Decision(call, "host")
	require.Equal(t, abi.Approve, latest.Approval.Decision, "a later edit approves again")
}

// TestDecisionAllocatesOnce checks that Decision copies only one of many decisions.
func TestDecisionAllocatesOnce(t *testing.T) {
	r := New()
	for range 100 {
		r.approvals = append(r.approvals, Approval{CallID: "c", Owner: "host", Tool: "t", Arguments: "{}"})
	}
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		_, n := r.Decision(abi.Call{ID: "c", Name: "t", Arguments: "{}"}, "host")
		require.Equal(t, 100, n)
	}), 3.0)
}
