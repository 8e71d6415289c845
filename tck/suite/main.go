// Command suite is the program that all modules of the golden cases are built
// into: one WebAssembly module, built once. Which of them an entry is, its
// configuration says; the cases' runner adds their sources and the table of them.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

func init() {
	middleware.Register(middleware.Options{Name: "cases", Events: middleware.EventTypes()}, &selected{})
}

func main() {}

// modules makes the middlewares by the name of case and module.
var modules = map[string]func() any{}

// A selected is the one middleware that an entry is. The runner has only
// those hooks called that it has.
type selected struct {
	Use    string          `json:"use"`
	Config json.RawMessage `json:"config"`

	it any
}

func (s *selected) Configure(ctx *middleware.Context) error {
	make, ok := modules[s.Use]
	if !ok {
		return fmt.Errorf("there is no module %q", s.Use)
	}
	s.it = make()
	if len(s.Config) > 0 && string(s.Config) != "null" {
		if unknown, err := abijson.Decode(s.Config, s.it); err != nil {
			return err
		} else if len(unknown) > 0 {
			return fmt.Errorf("unknown key %q", unknown[0])
		}
	}
	if c, ok := s.it.(middleware.ConfigureHook); ok {
		return c.Configure(ctx)
	}
	return nil
}

func (s *selected) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	return s.it.(middleware.BeforeAgentHook).BeforeAgent(ctx, run)
}

func (s *selected) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	return s.it.(middleware.BeforeModelRewriteStateHook).BeforeModelRewriteState(ctx, state)
}

func (s *selected) BeforeModel(ctx *middleware.Context, call *middleware.ModelStart) error {
	return s.it.(middleware.BeforeModelHook).BeforeModel(ctx, call)
}

func (s *selected) WrapModel(
	ctx *middleware.Context,
	req *middleware.Request,
	next middleware.NextModel,
) (*abi.Response, error) {
	return s.it.(middleware.WrapModelHook).WrapModel(ctx, req, next)
}

func (s *selected) OnChunk(ctx *middleware.Context, chunks *middleware.Chunks) error {
	return s.it.(middleware.OnChunkHook).OnChunk(ctx, chunks)
}

func (s *selected) AfterModel(ctx *middleware.Context, call *middleware.ModelEnd) error {
	return s.it.(middleware.AfterModelHook).AfterModel(ctx, call)
}

func (s *selected) AfterModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	return s.it.(middleware.AfterModelRewriteStateHook).AfterModelRewriteState(ctx, state)
}

func (s *selected) BeforeTool(ctx *middleware.Context, call *middleware.ToolStart) error {
	return s.it.(middleware.BeforeToolHook).BeforeTool(ctx, call)
}

func (s *selected) WrapToolCall(
	ctx *middleware.Context,
	call *middleware.Call,
	next middleware.NextTool,
) (*abi.Result, error) {
	return s.it.(middleware.WrapToolCallHook).WrapToolCall(ctx, call, next)
}

func (s *selected) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	return s.it.(middleware.GateToolHook).GateTool(ctx, call)
}

func (s *selected) CallTool(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
	return s.it.(middleware.CallToolHook).CallTool(ctx, call)
}

func (s *selected) AfterTool(ctx *middleware.Context, call *middleware.ToolEnd) error {
	return s.it.(middleware.AfterToolHook).AfterTool(ctx, call)
}

func (s *selected) ToolMessages(ctx *middleware.Context, record *middleware.ToolRecord) error {
	return s.it.(middleware.ToolMessagesHook).ToolMessages(ctx, record)
}

func (s *selected) AfterTools(ctx *middleware.Context, round *middleware.ToolsEnd) error {
	return s.it.(middleware.AfterToolsHook).AfterTools(ctx, round)
}

func (s *selected) AfterAgent(ctx *middleware.Context, run *middleware.AgentEnd) error {
	return s.it.(middleware.AfterAgentHook).AfterAgent(ctx, run)
}

func (s *selected) Observe(ctx *middleware.Context, events []abi.Event) error {
	return s.it.(middleware.ObserveHook).Observe(ctx, events)
}

func (s *selected) TranslateBefore(ctx *middleware.Context, t *middleware.Translation) error {
	return s.it.(middleware.TranslateBeforeHook).TranslateBefore(ctx, t)
}

func (s *selected) TranslateAfter(ctx *middleware.Context, t *middleware.Translation) error {
	return s.it.(middleware.TranslateAfterHook).TranslateAfter(ctx, t)
}
