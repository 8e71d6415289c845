// Package inproc runs middlewares written in Go in the host's process, with all rights of the
// process. Package host/native has constructors for them.
package inproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Middleware is a middleware written in Go. It has the hooks whose functions are set. A
// nil answer changes nothing, except that GateTool and CallTool must answer; an error
// corresponds to a module's hook returning 1. A panic is a fault.
//
// The functions are called concurrently by many runs. They should store the state of a run in its
// run-local values.
type Middleware struct {
	// Description describes the middleware. Describe replaces its list of hooks by the hooks that
	// are set; the middleware reads messages through [hook.Call.List].
	Description abi.Description

	BeforeAgent             func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error)
	BeforeModelRewriteState func(context.Context, *hook.Call, *abi.BeforeModelRewriteStateInput) (*abi.BeforeModelRewriteStateAnswer, error)
	BeforeModel             func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error)
	WrapModel               func(context.Context, *hook.Call, *abi.WrapModelInput) (*abi.WrapModelAnswer, error)
	OnChunk                 func(context.Context, *hook.Call, *abi.OnChunkInput) (*abi.OnChunkAnswer, error)
	AfterModel              func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error)
	AfterModelRewriteState  func(context.Context, *hook.Call, *abi.AfterModelRewriteStateInput) (*abi.AfterModelRewriteStateAnswer, error)
	BeforeTool              func(context.Context, *hook.Call, *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error)
	WrapToolCall            func(context.Context, *hook.Call, *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error)
	GateTool                func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error)
	CallTool                func(context.Context, *hook.Call, *abi.CallToolInput) (*abi.CallToolAnswer, error)
	AfterTool               func(context.Context, *hook.Call, *abi.AfterToolInput) (*abi.AfterToolAnswer, error)
	ToolMessages            func(context.Context, *hook.Call, *abi.ToolMessagesInput) (*abi.ToolMessagesAnswer, error)
	AfterTools              func(context.Context, *hook.Call, *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error)
	AfterAgent              func(context.Context, *hook.Call, *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error)
	Observe                 func(context.Context, *hook.Call, *abi.ObserveInput) (*abi.ObserveAnswer, error)
	TranslateBefore         func(context.Context, *hook.Call, *abi.TranslateInput) (*abi.TranslateAnswer, error)
	TranslateAfter          func(context.Context, *hook.Call, *abi.TranslateInput) (*abi.TranslateAnswer, error)
}

// Describe lists the hooks whose functions are set.
func (n *Middleware) Describe() hook.Description {
	d := n.Description
	d.Messages = contract.MessagesLazy
	d.Hooks = nil
	for h, set := range map[abi.Hook]bool{
		contract.HookBeforeAgent:             n.BeforeAgent != nil,
		contract.HookBeforeModelRewriteState: n.BeforeModelRewriteState != nil,
		contract.HookBeforeModel:             n.BeforeModel != nil,
		contract.HookWrapModel:               n.WrapModel != nil,
		contract.HookOnChunk:                 n.OnChunk != nil,
		contract.HookAfterModel:              n.AfterModel != nil,
		contract.HookAfterModelRewriteState:  n.AfterModelRewriteState != nil,
		contract.HookBeforeTool:              n.BeforeTool != nil,
		contract.HookWrapToolCall:            n.WrapToolCall != nil,
		contract.HookGateTool:                n.GateTool != nil,
		contract.HookCallTool:                n.CallTool != nil,
		contract.HookAfterTool:               n.AfterTool != nil,
		contract.HookToolMessages:            n.ToolMessages != nil,
		contract.HookAfterTools:              n.AfterTools != nil,
		contract.HookAfterAgent:              n.AfterAgent != nil,
		contract.HookObserve:                 n.Observe != nil,
		contract.HookTranslateBefore:         n.TranslateBefore != nil,
		contract.HookTranslateAfter:          n.TranslateAfter != nil,
	} {
		if set {
			d.Hooks = append(d.Hooks, h)
		}
	}
	return hook.Description{Description: d}
}

// Open returns a session that counts calls.
func (n *Middleware) Open(context.Context, string, string) (hook.Session, error) {
	return &nativeSession{n: n, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}, nil
}

type nativeSession struct {
	n     *Middleware
	mu    sync.Mutex
	stats abi.EntryStats
}

func (s *nativeSession) Close() {}

func (s *nativeSession) Stats() abi.EntryStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hook.CloneStats(&s.stats)
}

// Call runs the function of a hook.
func (s *nativeSession) Call(ctx context.Context, c *hook.Call, in, out any) (err error) {
	began := time.Now()
	defer func() {
		if v := recover(); v != nil {
			err = &ending.FaultError{Stage: ending.StageHook, Cause: fmt.Errorf("panic: %v", v), Stack: string(debug.Stack())}
		}
		var fault *ending.FaultError
		s.mu.Lock()
		defer s.mu.Unlock()
		hook.CountCall(&s.stats, c.Hook, time.Since(began)-hook.ControlOf(c).Waited(), errors.As(err, &fault))
	}()
	err = s.dispatch(ctx, c, in, out)
	if err != nil && !ending.Is(err) {
		return ending.AsError(err, abi.CodeInternal)
	}
	return err
}

func (s *nativeSession) dispatch(ctx context.Context, c *hook.Call, in, out any) error {
	n := s.n
	switch in := in.(type) {
	case *abi.BeforeAgentInput:
		return answer(n.BeforeAgent, ctx, c, in, out)
	case *abi.BeforeModelRewriteStateInput:
		return answer(n.BeforeModelRewriteState, ctx, c, in, out)
	case *abi.BeforeModelInput:
		return answer(n.BeforeModel, ctx, c, in, out)
	case *abi.WrapModelInput:
		return answer(n.WrapModel, ctx, c, in, out)
	case *abi.OnChunkInput:
		return answer(n.OnChunk, ctx, c, in, out)
	case *abi.AfterModelInput:
		return answer(n.AfterModel, ctx, c, in, out)
	case *abi.AfterModelRewriteStateInput:
		return answer(n.AfterModelRewriteState, ctx, c, in, out)
	case *abi.BeforeToolInput:
		return answer(n.BeforeTool, ctx, c, in, out)
	case *abi.WrapToolCallInput:
		return answer(n.WrapToolCall, ctx, c, in, out)
	case *abi.GateToolInput:
		return answer(n.GateTool, ctx, c, in, out)
	case *abi.CallToolInput:
		return answer(n.CallTool, ctx, c, in, out)
	case *abi.AfterToolInput:
		return answer(n.AfterTool, ctx, c, in, out)
	case *abi.ToolMessagesInput:
		return answer(n.ToolMessages, ctx, c, in, out)
	case *abi.AfterToolsInput:
		return answer(n.AfterTools, ctx, c, in, out)
	case *abi.AfterAgentInput:
		return answer(n.AfterAgent, ctx, c, in, out)
	case *abi.ObserveInput:
		return answer(n.Observe, ctx, c, in, out)
	case *abi.TranslateInput:
		if c.Hook == contract.HookTranslateBefore {
			return answer(n.TranslateBefore, ctx, c, in, out)
		}
		return answer(n.TranslateAfter, ctx, c, in, out)
	default:
		return fmt.Errorf("no hook takes %T", in)
	}
}

func answer[I, O any](
	hook func(context.Context, *hook.Call, *I) (*O, error),
	ctx context.Context,
	c *hook.Call,
	in *I,
	out any,
) error {
	res, err := hook(ctx, c, in)
	if o, ok := out.(*O); ok && res != nil {
		*o = *res
	}
	return err
}
