package eino

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/module"
)

// Options configures a middleware. New copies it.
type Options struct {
	// Name distinguishes several middlewares of one agent and its checkpoints. It defaults
	// to "agent-runner".
	Name string
	// Middlewares are called in this order, within Outer and around Inner.
	Middlewares []host.Middleware
	Outer       []host.Middleware
	Inner       []host.Middleware
	// ContinueOnError continues a pipeline after a failed hook. The pipeline then ends with the
	// first error.
	ContinueOnError bool
	// ContinueOnResponse continues a before pipeline after a hook that answered. The last answer is
	// used, unless a hook fails.
	ContinueOnResponse bool
	// Values stores the durable values of the entries, for the tenant that Tenant names. If Values is
	// nil, the entries have no durable values.
	Values hook.Values
	Tenant string
	// HTTP sends requests of middlewares. If nil, the requests fail.
	HTTP hook.HTTP
	// Tracer, if not nil, receives the operations of the run.
	Tracer host.Tracer
	// OnEvent receives every event of the chain: custom events, log lines and faults of modules,
	// messages of the model, calls and results of tools, and the end of a run that succeeds. It is
	// called concurrently. It may be nil.
	OnEvent func(context.Context, abi.Event)
}

// A middleware runs a chain of middlewares as one Eino middleware.
type middleware struct {
	*adk.BaseChatModelAgentMiddleware
	name    string
	chain   *chain.Chain
	loader  *module.Loader
	onEvent func(context.Context, abi.Event)
}

// New returns an Eino middleware that runs a chain of middlewares. It is safe for concurrent use by
// many agents and runs. The caller calls release, which frees the chain, after the last run. If a
// middleware fails to start, the error names it.
func New(
	ctx context.Context, h *host.Host, o *Options,
) (mw adk.ChatModelAgentMiddleware, release func(), err error) {
	if o == nil {
		o = &Options{}
	}
	c, err := h.NewChain(ctx, &host.ChainOptions{
		Middlewares:        o.Middlewares,
		Outer:              o.Outer,
		Inner:              o.Inner,
		ContinueOnError:    o.ContinueOnError,
		ContinueOnResponse: o.ContinueOnResponse,
		Values:             o.Values,
		Tenant:             o.Tenant,
		HTTP:               o.HTTP,
		Tracer:             o.Tracer,
	})
	if err != nil {
		return nil, nil, err
	}
	name := cmp.Or(o.Name, "agent-runner")
	return &middleware{name: name, chain: c.Chain, loader: h.Loader(), onEvent: o.OnEvent}, c.Close, nil
}

// BeforeAgent runs before_agent. It returns a context with the session of the run, and a copy of rc
// with the changes of the hooks. Eino calls it again when a run resumes.
func (m *middleware) BeforeAgent(
	ctx context.Context,
	rc *adk.ChatModelAgentContext,
) (context.Context, *adk.ChatModelAgentContext, error) {
	s := newSession(m)
	own := map[string]tool.BaseTool{}
	for _, t := range rc.Tools {
		info, err := t.Info(ctx)
		if err != nil {
			return ctx, rc, err
		}
		d, err := declaration(info)
		if err != nil {
			return ctx, rc, err
		}
		own[info.Name] = t
		s.tools = append(s.tools, d)
	}
	start := chain.Start{Instruction: rc.Instruction, Tools: s.tools, Messages: s.talk.list}
	for name, is := range rc.ReturnDirectly {
		if is {
			start.ReturnDirectly = append(start.ReturnDirectly, name)
		}
	}
	err := s.in(ctx, func(ctx context.Context, run *chain.Run) (err error) {
		start, err = run.BeforeAgent(ctx, start)
		return err
	})
	if err != nil {
		return ctx, rc, err
	}
	out := *rc
	out.Instruction, out.Tools, out.ReturnDirectly = start.Instruction, nil, map[string]bool{}
	for _, name := range start.ReturnDirectly {
		out.ReturnDirectly[name] = true
	}
	for _, d := range start.Tools {
		t := own[d.Name]
		if d.Owner != ownerEino {
			if t, err = newModuleTool(d); err != nil {
				return ctx, rc, fmt.Errorf("%s: tool %q: %w", d.Owner, d.Name, err)
			}
		}
		out.Tools = append(out.Tools, t)
	}
	s.tools, s.respond = start.Tools, start.Respond
	return m.with(ctx, s), &out, nil
}

// BeforeModelRewriteState runs before_model_rewrite_state, preceded by after_tools if tools were
// just called. If a resumed run already has the result of before_model_rewrite_state for this step,
// it changes nothing.
func (m *middleware) BeforeModelRewriteState(
	ctx context.Context,
	state *adk.ChatModelAgentState,
	_ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	s, err := m.session(ctx)
	if err != nil {
		return ctx, state, err
	}
	if s.begin() {
		return ctx, state, nil
	}
	list, err := s.talk.read(state.Messages)
	if err != nil {
		return ctx, state, err
	}
	d := chain.Draft{Messages: list, Tools: s.tools, Active: names(state.ToolInfos)}
	if calls := lastRound(list); len(calls) > 0 {
		if err := s.phase(ctx, phaseRound, func(ctx context.Context, run *chain.Run) (err error) {
			d.Messages, err = run.AfterTools(ctx, list, calls)
			return err
		}); err != nil {
			return ctx, state, err
		}
	}
	if err := s.phase(ctx, phaseBefore, func(ctx context.Context, run *chain.Run) (err error) {
		d, err = run.BeforeModelRewriteState(ctx, d)
		return err
	}); err != nil {
		return ctx, state, err
	}
	next := *state
	if next.Messages, err = s.talk.write(d.Messages); err != nil {
		return ctx, state, err
	}
	if next.ToolInfos, err = s.activate(state.ToolInfos, d.Active); err != nil {
		return ctx, state, err
	}
	s.rewritten()
	return ctx, &next, nil
}

// AfterModelRewriteState runs after_model_rewrite_state, ends the step and reports the last message
// as an event.
func (m *middleware) AfterModelRewriteState(
	ctx context.Context,
	state *adk.ChatModelAgentState,
	_ *adk.ModelContext,
) (context.Context, *adk.ChatModelAgentState, error) {
	s, err := m.session(ctx)
	if err != nil {
		return ctx, state, err
	}
	next := *state
	next.Messages = s.truth(state.Messages)
	list, err := s.talk.read(next.Messages)
	if err != nil {
		return ctx, state, err
	}
	err = s.phase(ctx, phaseAfter, func(ctx context.Context, run *chain.Run) (err error) {
		list, err = run.AfterModelRewriteState(ctx,
			chain.Draft{Messages: list, Tools: s.tools, Active: names(state.ToolInfos)})
		return err
	})
	if err != nil {
		return ctx, state, err
	}
	if next.Messages, err = s.talk.write(list); err != nil {
		return ctx, state, err
	}
	s.end()
	if last, ok := list.Last(); ok {
		s.Send(abi.Event{Type: abi.EventMessage, Message: &last})
	}
	return ctx, &next, nil
}

// AfterAgent runs after_agent and reports the end of the run as an event. Eino calls it only when a
// run succeeds, and ignores changes to the final message.
func (m *middleware) AfterAgent(ctx context.Context, state *adk.ChatModelAgentState) (context.Context, error) {
	s, err := m.session(ctx)
	if err != nil {
		return ctx, err
	}
	list, err := s.talk.read(state.Messages)
	if err != nil {
		return ctx, err
	}
	end := chain.End{Messages: list, FinishReason: abi.RunStop, Usage: s.Where().Usage}
	if last, ok := list.Last(); ok {
		if end.Final = &last; last.Role == abi.RoleTool {
			end.FinishReason = abi.RunReturnDirectly
		}
	}
	err = s.in(ctx, func(ctx context.Context, run *chain.Run) error {
		final := run.AfterAgent(ctx, end)
		if final != nil && end.Final != nil && final != end.Final {
			s.Send(abi.Event{
				Type:  abi.EventLog,
				Level: "warn",
				Text:  "after_agent: the final message cannot be changed: an Eino agent does not support that",
			})
		}
		finished := s.Send(abi.Event{
			Type:         abi.EventRunFinished,
			FinishReason: end.FinishReason,
			Message:      final,
			Usage:        &end.Usage,
		})
		run.Note(&finished)
		return nil
	})
	return ctx, err
}

// ownerEino is the owner of the Eino agent's own tools.
const ownerEino = "host"

// declaration converts Eino's description of a tool to the form that modules receive.
func declaration(info *schema.ToolInfo) (abi.Tool, error) {
	d := abi.Tool{Name: info.Name, Description: info.Desc, Owner: ownerEino}
	if info.ParamsOneOf == nil {
		return d, nil
	}
	js, err := info.ToJSONSchema()
	if err == nil && js != nil {
		d.Parameters, err = json.Marshal(js)
	}
	if err != nil {
		return d, fmt.Errorf("the parameters of tool %q: %w", info.Name, err)
	}
	return d, nil
}

func names(infos []*schema.ToolInfo) []string {
	out := make([]string, len(infos))
	for i, info := range infos {
		out[i] = info.Name
	}
	return out
}

// lastRound returns the tool calls whose results are the last messages of the list. It returns nil
// if the last message is not a tool result.
func lastRound(list *message.List) []abi.Call {
	i := list.Len()
	for i > 0 && list.At(i-1).Role == abi.RoleTool {
		i--
	}
	if i == list.Len() || i == 0 {
		return nil
	}
	var calls []abi.Call
	for _, c := range list.At(i - 1).ToolCalls {
		calls = append(calls, abi.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return calls
}

type sessionKey struct{ m *middleware }

// with returns a copy of ctx with the session s, which [middleware.session] reads.
func (m *middleware) with(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{m}, s)
}

// session returns the session of ctx's run, restored from the checkpoint if the run was resumed. It
// fails outside of a run.
func (m *middleware) session(ctx context.Context) (*session, error) {
	s, _ := ctx.Value(sessionKey{m}).(*session)
	if s == nil {
		return nil, errors.New("agent-runner: called outside of a run; put the middleware into ChatModelAgentConfig.Handlers")
	}
	return s, s.attach(ctx)
}

// resumeAnswer returns, as JSON, the answer with which the caller resumed the current component. It
// returns nil if the caller did not resume this component, and the JSON value null if the caller
// gave no answer.
func resumeAnswer(ctx context.Context) (answer []byte, err error) {
	target, has, data := compose.GetResumeContext[any](ctx)
	switch {
	case !target:
		return nil, nil
	case !has || data == nil:
		return []byte("null"), nil
	}
	if raw, ok := data.([]byte); ok {
		return raw, nil
	}
	return json.Marshal(data)
}
