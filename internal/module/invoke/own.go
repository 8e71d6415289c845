package invoke

import (
	"context"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// Model makes a model call for the module.
func (inv *Invocation) Model(ctx context.Context, request []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "model", Bytes: []replay.Blob{request}} },
		func() ([]byte, error) {
			if !inv.Grants.Model {
				return nil, notGranted("model")
			}
			var p abi.RequestPatch
			if err := inv.Decode("model: the request", request, &p); err != nil {
				return nil, err
			}
			defer inv.syncClock()
			var res *abi.Response
			var err error
			inv.wait(func() { res, err = inv.Call.Model(ctx, p) })
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(&contract.ModelReply{Response: res})
		},
	)
}

// Tool calls one of the agent's tools for the module.
func (inv *Invocation) Tool(ctx context.Context, request []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "tool", Bytes: []replay.Blob{request}} },
		func() ([]byte, error) {
			if len(inv.Grants.Tools) == 0 && len(request) == 0 {
				return nil, notGranted("tool:NAME")
			}
			var q contract.ToolRequest
			if err := inv.Decode("tool: the request", request, &q); err != nil {
				return nil, err
			}
			switch {
			case q.Name == "":
				return nil, &abi.Error{Code: abi.CodeInvalid, Message: "tool: the request names no tool"}
			case !slices.Contains(inv.Grants.Tools, q.Name):
				return nil, notGranted(fmt.Sprintf("tool:%.64s", q.Name))
			}
			defer inv.syncClock()
			var res *abi.Result
			var err error
			inv.wait(func() { res, err = inv.Call.Tool(ctx, q.Name, q.Arguments) })
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(&contract.ToolReply{Result: res})
		},
	)
}

// CheckGrants returns an error if an answer of before_agent changes the model, its parameters or the limits, and the
// entry does not have the grant. Other answers need no grant.
func (inv *Invocation) CheckGrants(answer any) error {
	a, ok := answer.(*abi.BeforeAgentAnswer)
	switch {
	case !ok:
		return nil
	case a.Model != "" && !inv.Grants.SetModel:
		return fmt.Errorf("model: %s", notGranted("set:model").Message)
	case a.Params != nil && !inv.Grants.SetModel:
		return fmt.Errorf("params: %s", notGranted("set:model").Message)
	case a.Limits != nil && !inv.Grants.SetLimits:
		return fmt.Errorf("limits: %s", notGranted("set:limits").Message)
	}
	return nil
}

// syncClock advances the guest's clock to the host's clock. It is called after host calls that
// wait.
func (inv *Invocation) syncClock() { inv.Now = inv.Call.Where().NowMS * 1e6 }

func notGranted(grant string) *abi.Error {
	return &abi.Error{
		Code:    abi.CodeDenied,
		Message: fmt.Sprintf("%s is not granted to this entry; add grants: [%s] in agent.yaml", grant, grant),
	}
}
