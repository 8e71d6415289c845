// Package probe calls a single hook of a module without an agent.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// Options configures [Call].
type Options struct {
	Hook   abi.Hook
	Input  json.RawMessage // defaults to {}; the fields that all hooks have are optional
	Config json.RawMessage
	Grants policy.Grants
	// Messages are the contents of the lists of messages that the input does not contain.
	Messages []abi.Message
	// Next are the replies to the hook's calls of next, in order, as JSON: {"response": …},
	// {"result": …} or {"error": …}.
	Next []json.RawMessage
	// Event is called with the events and log lines of the hook. It may be nil.
	Event func(abi.Event)
}

// Call calls one hook of the module without an agent. It returns the hook's answer, or nil if the
// hook gives none. The error is an *abi.Error if the hook failed, and an *ending.FaultError if it
// faulted. Any other error means that the hook could not be called, for example because an option
// is invalid or ctx is done.
func Call(ctx context.Context, m *module.Module, o *Options) (json.RawMessage, error) {
	in, answer := contract.Exchange(o.Hook)
	switch {
	case in == nil:
		return nil, fmt.Errorf("%q is not a hook; the hooks are %v", o.Hook, contract.Hooks())
	case !slices.Contains(m.Info().Hooks, o.Hook):
		return nil, fmt.Errorf("the module has no hook %s that runs call; it has %v", o.Hook, m.Info().Hooks)
	}
	if len(o.Input) > 0 {
		if _, err := abijson.Decode(o.Input, in); err != nil {
			return nil, fmt.Errorf("the input of %s: %w", o.Hook, err)
		}
	}
	mw, err := module.Configure(ctx, m, "probe", o.Config, o.Grants)
	if err != nil {
		return nil, err
	}
	defer mw.Close()
	c, err := chain.New(hook.Entry{Name: "probe", Middleware: mw, Read: o.Grants.Read})
	if err != nil {
		return nil, err
	}
	r, err := c.Open(ctx, abi.Run{ID: "run_probe"}, &prober{event: o.Event}, local.New())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := &chain.Probe{Entry: "probe", Hook: o.Hook, Input: in, Answer: answer, Next: o.next()}
	showLists(p, in, o.Messages)
	if err := r.Probe(ctx, p); err != nil {
		return nil, err
	}
	if reflect.ValueOf(answer).Elem().IsZero() {
		return nil, nil
	}
	return abijson.Marshal(answer)
}

// showLists sets p.Lists to the lists of messages that the hook can read. The items of a list are
// those in the input in, or messages if in contains none. Items without an ID get one.
func showLists(p *chain.Probe, in any, messages []abi.Message) {
	revisions := message.NewRevisions()
	v := reflect.ValueOf(in).Elem()
	places := [2]reflect.Value{v.FieldByName("Messages"), {}}
	if request := v.FieldByName("Request"); request.IsValid() {
		places[abi.ListRequest] = request.FieldByName("Messages")
		places[abi.ListState] = reflect.New(reflect.TypeFor[abi.List]()).Elem()
	}
	for n, place := range places {
		if !place.IsValid() {
			continue
		}
		items := place.Interface().(abi.List).Items
		if items == nil {
			items = messages
		}
		for i := range items {
			if items[i].ID == "" {
				items[i].ID = fmt.Sprintf("msg_%d", i+1)
			}
		}
		p.Lists[n] = message.NewList(revisions, items)
	}
	p.Shown = func(n int, l abi.List) { places[n].Set(reflect.ValueOf(l)) }
}

// next returns a function that returns the replies in order. After the last reply, the function
// returns an error.
func (o *Options) next() func(context.Context, any) (any, error) {
	n := 0
	return func(context.Context, any) (any, error) {
		if n++; n > len(o.Next) {
			return nil, &abi.Error{
				Code:    abi.CodeUnavailable,
				Message: fmt.Sprintf("call %d of next: there are only %d replies; add more with --next", n, len(o.Next)),
			}
		}
		var reply struct {
			Response *abi.Response `json:"response"`
			Result   *abi.Result   `json:"result"`
			Error    *abi.Error    `json:"error"`
		}
		if _, err := abijson.Decode(o.Next[n-1], &reply); err != nil {
			return nil, fmt.Errorf("reply %d of next: %w", n, err)
		}
		switch {
		case reply.Error != nil:
			return nil, reply.Error
		case o.Hook == contract.HookWrapModel && reply.Response != nil:
			return reply.Response, nil
		case o.Hook == contract.HookWrapToolCall && reply.Result != nil:
			return reply.Result, nil
		}
		return nil, errors.New(`a reply of next is {"response": …}, {"result": …} or {"error": …}`)
	}
}

// A prober is the host of the run. It passes events to an optional function.
type prober struct {
	event func(abi.Event)
	ids   int
}

// Where returns a fixed position, step 1 of a run. Where, Send and NewID implement hook.Host.
func (p *prober) Where() abi.Run {
	return abi.Run{ID: "run_probe", Agent: "probe", Step: 1, StepID: "step_1", MaxSteps: 20, NowMS: 1_767_225_600_000}
}

// Send calls p.event with e, if p.event is not nil. It returns e unchanged.
func (p *prober) Send(e abi.Event) abi.Event {
	if p.event != nil {
		p.event(e)
	}
	return e
}

// NewID returns an id for a message.
func (p *prober) NewID() string {
	p.ids++
	return fmt.Sprintf("new_%d", p.ids)
}
