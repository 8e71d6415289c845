package persist_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// with returns a chain of entries.
func with(t *testing.T, entries ...hook.Entry) *chain.Chain {
	t.Helper()
	c, err := chain.New(entries...)
	require.NoError(t, err)
	return c
}

func nativeEntry(name string, n *inproc.Middleware) hook.Entry {
	return hook.Entry{Name: name, Ring: hook.Tenant, Middleware: n}
}

// asks returns a middleware whose gate asks for an approval of each call of the tool called name.
func asks(name string) *inproc.Middleware {
	return &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.Name != name {
				return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "May I?", Payload: json.RawMessage(`{"risk":3}`)}, nil
		},
	}
}

// agentOf returns an agent whose model gives scripted replies, and the model.
func agentOf(t *testing.T, o agent.Options, replies ...scripted.Reply) (*agent.Agent, *scripted.Model) {
	t.Helper()
	m := scripted.New(replies...)
	o.Model = m
	a, err := agent.New(&o)
	require.NoError(t, err)
	return a, m
}

// researcher returns a reply in which the model calls the sub-agent "researcher".
func researcher(id, request string) scripted.Reply {
	b, _ := json.Marshal(map[string]string{"request": request})
	return scripted.Calls(abi.NewToolCall(id, "researcher", string(b)))
}

// eventsOf runs a and returns its events and its last error.
func eventsOf(t *testing.T, a *agent.Agent, in agent.Input) ([]abi.Event, error) {
	t.Helper()
	var events []abi.Event
	var last error
	in.Messages, in.RunID = []abi.Message{abi.User("hi")}, "r"
	for e, err := range a.Run(t.Context(), in) {
		events, last = append(events, e), err
		require.EqualValues(t, len(events), e.Seq)
		require.Equal(t, "r", e.Run)
	}
	return events, last
}
