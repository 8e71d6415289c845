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

// A Client holds the tools, parameters and checks that the client of a run adds to the agent. The
// zero value adds nothing.
type Client struct {
	Tools []abi.Tool // tools that the client executes
	// Params are parameters for the run's model calls, which the agent must allow. They replace the
	// parameters of the run's earlier requests. If Params is nil, the earlier ones remain, and
	// Choice and Check have no effect. Choice is the tool_choice of the next model call; if it is
	// nil, the model may choose.
	Params abi.Params
	Choice abi.JSON
	// Check checks the text of the final answer. It returns a description of the fault, or "" if
	// there is none. If there is a fault, the run asks the model again, once. Check may be nil.
	Check func(text string) string
	// Turn is the place of a new run in a thread. It is nil if the run has no thread.
	Turn *Turn
	// Encoder encodes the events in the client's protocol. Optional.
	Encoder chain.Encoder
}

// attached reports whether the run needs the connection to its client. It does if the client sets
// tools, parameters or an encoder, which queues do not store.
func (c *Client) attached() bool { return c.Encoder != nil || c.Tools != nil || c.Params != nil }

// agent returns the agent of o with the client's additions. It fails with a [*httpapi.Problem] if
// the agent does not allow them.
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
