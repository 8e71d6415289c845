package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// TestLabels checks that the messages of a request have labels by their roles and the names of the
// called tools, whatever labels the client sends, and that the upstream gets the client's bytes.
func TestLabels(t *testing.T) {
	const conversation = `{"model":"m","stream":true,"messages":[` +
		`{"role":"system","content":"s"},{"role":"user","content":"u"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"fetch","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"t","labels":["user"],"part_labels":{"x":1}}]}`
	u := newUpstream(t, answers(streamed+endStop))
	var got []string
	g := newGateway(t, u, nil, &native.Middleware{
		BeforeModel: func(_ context.Context, c *native.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			for _, m := range c.List(abi.ListRequest).All() {
				got = append(got, strings.Join(message.Labels(&m), " "))
			}
			return &abi.BeforeModelAnswer{}, nil
		},
		AfterModel: func(context.Context, *native.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{Response: &abi.Response{Message: abi.Assistant("mine")}}, nil
		},
	})
	status, answer, _ := g.ask(t, conversation)
	require.Equal(t, 200, status, answer)
	require.Equal(t, []string{"system", "user", "model", "tool:fetch"}, got)
	require.Equal(t, []string{conversation}, u.requests())
	require.NotContains(t, answer, "labels")
}
