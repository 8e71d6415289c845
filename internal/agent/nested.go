package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

var _ chain.Nester = (*run)(nil)

// OwnModel implements [chain.Nester]. The call counts in the run's usage and towards its limit of
// model calls.
func (r *run) OwnModel() chain.ModelCall {
	m := r.model()
	return chain.ModelCall{
		Request: chain.ModelRequest{
			Messages: message.NewList(r.revs, nil),
			Model:    m.Name,
			Params:   m.Params,
		},
		State:    r.state.Messages,
		Generate: r.ask,
		Allow:    r.allow,
	}
}

// OwnTool implements [chain.Nester].
func (r *run) OwnTool(name string) (chain.ToolCall, error) {
	t, ok := runlog.ToolOf(&r.state, name)
	switch {
	case !ok:
		return chain.ToolCall{}, &abi.Error{
			Code:    abi.CodeNotFound,
			Message: fmt.Sprintf("tool: this agent has no tool %q", name),
		}
	case !slices.Contains(r.state.Active, name):
		return chain.ToolCall{}, &abi.Error{Code: abi.CodeDenied, Message: fmt.Sprintf("tool: %s is not active", name)}
	}
	return chain.ToolCall{Tool: t, State: r.state.Messages,
		Run: func(ctx context.Context, call abi.Call, resume *abi.Resume, out pipe.Sink) (*abi.Result, error) {
			if resume != nil {
				ctx = toolcall.WithAnswer(ctx, resume.Answer)
			}
			return r.runTool(withCaller(ctx, r, nil), call, out)
		}}, nil
}

// Room implements [chain.Nester].
func (r *run) Room(ctx context.Context, of hook.Own) (release func(), err error) {
	if r.room == nil {
		return func() {}, nil
	}
	return r.room(ctx, of)
}
