package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// maxParams is the maximum size in bytes of the parameters that before_agent sets. The host stores
// them for the whole run.
const maxParams = 64 << 10

// A Start is the state at the start of a run, which before_agent can change.
type Start struct {
	Instruction string
	// InstructionLabels are the labels of an instruction that a hook changed; nil otherwise.
	InstructionLabels []string
	Tools             []abi.Tool
	ReturnDirectly    []string
	Messages          *message.List
	Model             string
	Params            abi.Params
	Limits            abi.RunLimits
	Respond           *abi.Message // an answer that replaces the model's

	// MaxSteps is the maximum of the step limit that hooks can set. If it is 0, hooks cannot set a
	// limit.
	MaxSteps int
	// Allow returns an error if modules must not choose the model or parameters. Nil rejects all.
	Allow func(model string, params abi.Params) error
}

// BeforeAgent runs before_agent from the outside in, and returns the changed start. A hook that
// responds skips the remaining hooks unless ContinueOnResponse is set, and a hook that fails does
// unless ContinueOnError is set. The result is valid only if the error is nil.
func (r *Run) BeforeAgent(ctx context.Context, s Start) (Start, error) {
	owners := map[string]string{}
	for _, t := range s.Tools {
		owners[t.Name] = t.Owner
	}
	var p pipeline
	for _, m := range r.Inward(contract.HookBeforeAgent) {
		c := r.Call(m, contract.HookBeforeAgent, s.Messages)
		in := &abi.BeforeAgentInput{
			Instruction:    s.Instruction,
			Tools:          array(s.Tools),
			ReturnDirectly: array(s.ReturnDirectly),
			Messages:       c.View(abi.ListState),
			Model:          s.Model,
			Params:         s.Params,
			Limits:         s.Limits,
		}
		var out abi.BeforeAgentAnswer
		v, err := c.Invoke(ctx, in, &out, func() (err error) {
			s, err = r.applyStart(c, s, &out, m, owners)
			return err
		})
		if p.ends(r, c, v, err) {
			return s, p.err
		}
		for _, t := range s.Tools {
			owners[t.Name] = t.Owner
		}
		if out.Respond != nil && v.OK() && !r.ContinueOnResponse {
			break
		}
	}
	return s, p.err
}

// array returns s, or an empty slice if s is nil. The declarations of inputs have arrays, but JSON
// encodes a nil slice as null.
func array[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// A pipeline records the first error of a sequence of state hooks.
type pipeline struct{ err error }

// ends records the outcome of one hook, and reports whether to skip the remaining hooks.
func (p *pipeline) ends(r *Run, c *hook.Control, v record.Verdict, err error) bool {
	if err != nil {
		p.err = err
		return true
	}
	if v.Failed != nil && p.err == nil {
		p.err = &ending.HookError{Entry: c.Entry(), Hook: c.Hook, Err: v.Failed}
	}
	return p.err != nil && !r.ContinueOnError
}

// applyStart returns s with the answer of member m applied. If the answer is invalid, it returns s
// unchanged and an error.
func (r *Run) applyStart(
	c *hook.Control,
	s Start,
	out *abi.BeforeAgentAnswer,
	m *hook.Member,
	owners map[string]string,
) (Start, error) {
	next := s
	var err error
	if next.Messages, err = c.Edit(s.Messages, &out.Messages, r.NewID); err != nil {
		return s, err
	}
	if !out.Tools.IsZero() {
		if next.Tools, err = toolset.Edit(s.Tools, owners, &out.Tools, m.Name); err != nil {
			return s, err
		}
		for _, t := range next.Tools {
			if t.Owner == m.Name && !m.Has(contract.HookCallTool) {
				return s, fmt.Errorf("tools: adds %q, but has no call_tool to run it", t.Name)
			}
		}
	}
	if out.Instruction != nil && *out.Instruction != s.Instruction {
		next.Instruction = *out.Instruction
		before := s.InstructionLabels
		if before == nil {
			before = []string{abi.LabelSystem}
		}
		next.InstructionLabels = message.JoinLabels(before, []string{message.EntryLabel(m.Name)})
	}
	if len(out.ReturnDirectly) > toolset.Max {
		return s, fmt.Errorf("return_directly: names %d tools; at most %d are allowed", len(out.ReturnDirectly), toolset.Max)
	}
	if out.ReturnDirectly != nil {
		next.ReturnDirectly = out.ReturnDirectly
	}
	if out.Model != "" || len(out.Params) > 0 {
		next.Model, next.Params = cmp.Or(out.Model, s.Model), toolset.MergeParams(s.Params, out.Params)
		if n := size.Params(next.Params); n > maxParams {
			return s, fmt.Errorf("params: %d bytes; at most %d are allowed", n, maxParams)
		}
		if err := s.allow(next.Model, next.Params); err != nil {
			return s, err
		}
	}
	if next.Limits, err = s.changeLimits(out.Limits, m.Ring != hook.Tenant); err != nil {
		return s, fmt.Errorf("limits: %w", err)
	}
	if out.Respond != nil {
		res := abi.Response{Message: *out.Respond}
		if err := message.CheckResponse(&res, m.Name, nil); err != nil {
			return s, err
		}
		next.Respond = &res.Message
	}
	return next, nil
}

func (s *Start) allow(model string, params abi.Params) error {
	if s.Allow == nil {
		return errors.New("model: before_agent cannot set the model or its parameters here")
	}
	if err := s.Allow(model, params); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// A Draft is the state of a step that its state hooks can change: the messages and, before the
// model call, the active tools.
type Draft struct {
	Messages *message.List
	Tools    []abi.Tool
	Active   []string // names of the tools that are offered to the model
	Model    string
	Params   abi.Params
}

func (d *Draft) stateTools() []abi.StateTool {
	active := map[string]bool{}
	for _, name := range d.Active {
		active[name] = true
	}
	out := make([]abi.StateTool, len(d.Tools))
	for i, t := range d.Tools {
		out[i] = abi.StateTool{Tool: t, Active: active[t.Name]}
	}
	return out
}

// BeforeModelRewriteState runs before_model_rewrite_state from the outside in, and returns the
// changed draft. A hook that fails skips the remaining hooks, unless ContinueOnError is set. The
// result is valid only if the error is nil.
func (r *Run) BeforeModelRewriteState(ctx context.Context, d Draft) (Draft, error) {
	var p pipeline
	for _, m := range r.Inward(contract.HookBeforeModelRewriteState) {
		c := r.Call(m, contract.HookBeforeModelRewriteState, d.Messages)
		in := &abi.BeforeModelRewriteStateInput{
			Messages: c.View(abi.ListState),
			Tools:    d.stateTools(),
			Model:    d.Model,
			Params:   d.Params,
		}
		var out abi.BeforeModelRewriteStateAnswer
		v, err := c.Invoke(ctx, in, &out, func() error {
			if err := toolset.CheckActive(out.Active, d.Tools); err != nil {
				return err
			}
			messages, err := c.Edit(d.Messages, &out.Messages, r.NewID)
			if err != nil {
				return err
			}
			d.Messages = messages
			if out.Active != nil {
				d.Active = out.Active
			}
			return nil
		})
		if p.ends(r, c, v, err) {
			return d, p.err
		}
	}
	return d, p.err
}

// AfterModelRewriteState runs after_model_rewrite_state from the inside out, and returns the
// changed messages. A hook that fails skips the remaining hooks, unless ContinueOnError is set.
func (r *Run) AfterModelRewriteState(ctx context.Context, d Draft) (*message.List, error) {
	var p pipeline
	for _, m := range r.Outward(contract.HookAfterModelRewriteState) {
		c := r.Call(m, contract.HookAfterModelRewriteState, d.Messages)
		in := &abi.AfterModelRewriteStateInput{Messages: c.View(abi.ListState), Tools: d.stateTools()}
		var out abi.AfterModelRewriteStateAnswer
		v, err := c.Invoke(ctx, in, &out, func() (err error) {
			d.Messages, err = editedOr(d.Messages)(c.Edit(d.Messages, &out.Messages, r.NewID))
			return err
		})
		if p.ends(r, c, v, err) {
			return nil, p.err
		}
	}
	return d.Messages, p.err
}

// AfterTools runs after_tools from the inside out after a round of tool calls, and returns the
// changed messages. A hook that fails skips the remaining hooks, unless ContinueOnError is set. An
// answer is a fault if a call then has no result or several, or a result has no call.
func (r *Run) AfterTools(ctx context.Context, messages *message.List, calls []abi.Call) (*message.List, error) {
	var p pipeline
	for _, m := range r.Outward(contract.HookAfterTools) {
		c := r.Call(m, contract.HookAfterTools, messages)
		in := &abi.AfterToolsInput{Messages: c.View(abi.ListState), Calls: calls}
		var out abi.AfterToolsAnswer
		v, err := c.Invoke(ctx, in, &out, func() (err error) {
			edited, err := c.Edit(messages, &out.Messages, r.NewID)
			if err == nil {
				err = message.CheckResults(messages, edited)
			}
			if err != nil {
				return err
			}
			messages = edited
			return nil
		})
		if p.ends(r, c, v, err) {
			return nil, p.err
		}
	}
	return messages, p.err
}

// editedOr returns a function that takes the results of [message.Edit] and returns the edited list.
// If the error is not nil, the function returns before and the error.
func editedOr(before *message.List) func(*message.List, error) (*message.List, error) {
	return func(after *message.List, err error) (*message.List, error) {
		if err != nil {
			return before, err
		}
		return after, nil
	}
}

// An End describes how a run ended, for after_agent.
type End struct {
	Messages     *message.List
	NewFrom      int
	Final        *abi.Message
	Err          *abi.Error
	FinishReason string
	Usage        abi.Usage
}

// AfterAgent runs after_agent from the inside out and returns the final message. An error or fault
// of a hook neither prevents the others from running nor changes the outcome of the run. If ctx is
// done, AfterAgent skips the remaining hooks.
func (r *Run) AfterAgent(ctx context.Context, e End) *abi.Message {
	for _, m := range r.Outward(contract.HookAfterAgent) {
		c := r.Call(m, contract.HookAfterAgent, e.Messages)
		in := &abi.AfterAgentInput{
			Messages:     c.View(abi.ListState),
			NewFrom:      e.NewFrom,
			Final:        m.Final(e.Final),
			Error:        e.Err,
			FinishReason: e.FinishReason,
			Usage:        e.Usage,
		}
		var out abi.AfterAgentAnswer
		v, err := c.Invoke(ctx, in, &out, func() error {
			if out.Final == nil {
				return nil
			}
			if err := checkFinal(out.Final, e.Final); err != nil {
				return err
			}
			final := *out.Final
			final.ID, final.Origin = "", abi.OriginModule+m.Name
			labels := []string{message.EntryLabel(m.Name)}
			if e.Final != nil {
				final.ID, final.Origin = e.Final.ID, e.Final.Origin
				labels = message.JoinLabels(message.Labels(e.Final), labels)
			}
			message.SetLabels(&final, labels)
			e.Final = &final
			return nil
		})
		if err != nil && ending.FromContext(ctx) != nil {
			return e.Final
		}
		if err != nil { // a call that the hook made failed; the error cannot end the run, which is over
			c.LogFailed(ending.AsError(err, abi.CodeInternal))
		}
		if v.Failed != nil {
			c.LogFailed(v.Failed)
		}
	}
	return e.Final
}

// checkFinal returns an error if final, the new final message, is invalid or has tool calls. Its
// role must be assistant or the role of was, the message that it replaces.
func checkFinal(final, was *abi.Message) error {
	if err := contract.CheckMessage(final); err != nil {
		return fmt.Errorf("final: %w", err)
	}
	if err := message.CheckJSON(final); err != nil {
		return fmt.Errorf("final: %w", err)
	}
	if final.Role != abi.RoleAssistant && (was == nil || final.Role != was.Role) {
		return fmt.Errorf("final: want an assistant's message, got a %s's", final.Role)
	}
	if len(final.ToolCalls) > 0 {
		return fmt.Errorf("final: has tool_calls, which would not be answered")
	}
	return nil
}
