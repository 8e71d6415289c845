package runs

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// A Client is what the client of a run adds to its agent. The zero value adds nothing.
type Client struct {
	Tools []abi.Tool // tools that the client executes
	// Params are parameters of the run's model calls, which the agent must allow, in place of those of an earlier
	// request. If it is nil, those stay, and Choice and Check do not count. Choice is the tool_choice of the next
	// call.
	Params abi.Params
	Choice abi.JSON
	// Check returns what is wrong with the text of the final answer, or "". The model is then asked again, once.
	Check func(text string) string
	// Encoder encodes the events in the client's protocol. Optional.
	Encoder chain.Encoder
}

// agent returns the agent of a handle with what the client adds. It fails with a [*httpapi.Problem].
func (c *Client) agent(o *agents.Handle) (*agent.Agent, error) {
	a := o.Agent
	if len(c.Tools) > 0 {
		var list []tool.Tool
		for _, d := range c.Tools {
			list = append(list, tool.ByClient(d))
		}
		var err error
		if a, err = a.WithTools(list...); err != nil {
			return nil, httpapi.NewProblem(api.CodeInvalid, "%v", err)
		}
	}
	if c.Params == nil {
		return a, nil
	}
	if err := o.Requests.Check(c.Params, c.Choice); err != nil {
		return nil, err
	}
	return agent.WithRequest(a, agent.Requested{Params: c.Params, Choice: c.Choice, Check: c.Check}), nil
}
