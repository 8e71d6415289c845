// Command five contains the five middlewares in one module. The configuration of an entry selects one
// of them.
package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/five"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Which is the configuration of an entry. Use names one of the five middlewares.
type Which struct {
	Use string `json:"use"`
}

func init() {
	middleware.Register(
		middleware.Options{Name: "five", Events: five.Counted},
		middleware.Build(func(w Which) (*only, error) {
			switch w.Use {
			case "patch":
				return &only{BeforeModelRewriteStateHook: patch{}}, nil
			case "policy":
				return &only{GateToolHook: policy{}}, nil
			case "redact":
				return &only{OnChunkHook: redact{}, AfterToolHook: redact{}}, nil
			case "cache":
				return &only{WrapToolCallHook: cache{}}, nil
			case "observe":
				return &only{ObserveHook: observe{}}, nil
			}
			return nil, middleware.Errorf("there is no %q", w.Use)
		}),
	)
}

func main() {}

// only acts as one of the five middlewares. It has the hook methods of all five, but the host calls
// only the hooks that the entry lists.
type only struct {
	middleware.BeforeModelRewriteStateHook
	middleware.GateToolHook
	middleware.OnChunkHook
	middleware.AfterToolHook
	middleware.WrapToolCallHook
	middleware.ObserveHook
}

type patch struct{}

func (patch) BeforeModelRewriteState(_ *middleware.Context, s *middleware.State) error {
	splices := five.Patch(s.Messages.Slice(0, s.Messages.Len()))
	for i := len(splices) - 1; i >= 0; i-- {
		s.Messages.Insert(splices[i].At, splices[i].Insert...)
	}
	return nil
}

type policy struct{}

func (policy) GateTool(_ *middleware.Context, c *middleware.Call) (middleware.Decision, error) {
	if ok, why := five.Allowed(c.Name, c.Arguments); !ok {
		return middleware.Deny(why), nil
	}
	return middleware.Allow(), nil
}

type redact struct{}

func (redact) OnChunk(_ *middleware.Context, c *middleware.Chunks) error {
	for i := range c.Items {
		c.Items[i].Text, _ = five.Redact(c.Items[i].Text)
	}
	return nil
}

func (redact) AfterTool(_ *middleware.Context, c *middleware.ToolEnd) error {
	if c.Result != nil {
		if text, n := five.Redact(c.Result.Content.String()); n > 0 {
			c.Result.Content = abi.Text(text)
		}
	}
	return nil
}

type cache struct{}

func (cache) WrapToolCall(ctx *middleware.Context, c *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
	kept := middleware.Local[abi.Result](five.Key(c.Name, c.Arguments))
	if res, hit, err := kept.Get(ctx); err != nil || hit {
		return &res, err
	}
	res, err := next(nil)
	if err != nil {
		return nil, err
	}
	return res, kept.Set(ctx, *res)
}

type observe struct{}

func (observe) Observe(ctx *middleware.Context, events []abi.Event) error {
	counts := middleware.Local[map[string]int]("run/counts")
	have, _, err := counts.Get(ctx)
	if err != nil {
		return err
	}
	if have == nil {
		have = map[string]int{}
	}
	five.Count(have, events)
	return counts.Set(ctx, have)
}
