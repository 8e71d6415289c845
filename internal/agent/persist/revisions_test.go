package persist_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// A memory is the revision and the length of the list that rememberList received last.
type memory struct {
	Revision int64 `json:"revision"`
	Total    int   `json:"total"`
}

// rememberList returns a middleware that stores the revision of each list in a run-local value. In
// the next step it requires that the revision has grown, and that the host reports added messages
// as changed. It counts its calls in steps.
func rememberList(t *testing.T, steps *int) *inproc.Middleware {
	return &inproc.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, in *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			*steps++
			v, ok, err := c.LocalGet("seen")
			require.NoError(t, err)
			if ok {
				var before memory
				require.NoError(t, json.Unmarshal(v.Value, &before))
				require.Less(t, before.Revision, in.Messages.Revision, "a revision names one list of the run")
				first, err := hook.ControlOf(c).Changed(in.Messages.List, before.Revision)
				require.NoError(t, err)
				require.LessOrEqual(t, first, before.Total, "messages that were added count as changed")
			}
			now, err := json.Marshal(memory{in.Messages.Revision, in.Messages.Total})
			require.NoError(t, err)
			_, err = c.LocalSet("seen", now, abi.LocalAlways)
			return nil, err
		},
	}
}

// TestRevisionsAfterResume checks that the revisions of a run's lists keep growing after the run is
// resumed. A module that stores a revision in a run-local value must receive every later change.
func TestRevisionsAfterResume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forget  bool // simulate an earlier version, which paused the run without the counter
		journal bool
	}{"state": {}, "state of an earlier version": {forget: true}, "journal": {journal: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			o := agent.Options{
				Tools: []tool.Tool{
					tool.Func(
						abi.Tool{Name: "t"},
						func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("ok"), nil },
					),
				},
			}
			var err error
			o.Chain, err = chain.New(
				hook.Entry{Name: "remember", Middleware: rememberList(t, &steps)},
				hook.Entry{Name: "ask", Middleware: asks("t")},
			)
			require.NoError(t, err)
			if tc.journal {
				o.Journal = &journal.Options{Journal: openStore(t)}
			}
			call := func(id string) scripted.Reply { return scripted.Calls(abi.NewToolCall(id, "t", "{}")) }
			a, _ := agentOf(t, o, call("1"), call("2"), scripted.Text("done"))
			_, err = eventsOf(t, a, agent.Input{})
			for i := range 2 {
				var paused *agent.PausedError
				require.ErrorAs(t, err, &paused)
				require.Len(t, paused.Interrupts, 1)
				if tc.forget && i == 0 {
					paused.State.Revisions = 0
				}
				answers := map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage("true")}
				resume := func() (iter.Seq2[abi.Event, error], error) { return a.Resume(t.Context(), paused.State, answers) }
				if tc.journal {
					resume = func() (iter.Seq2[abi.Event, error], error) { return a.Continue(t.Context(), "r", answers) }
				}
				events, failed := resume()
				require.NoError(t, failed)
				for _, e := range events {
					err = e
				}
			}
			require.NoError(t, err)
			require.Equal(t, 3, steps)
		})
	}
}
