package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// A player runs a case's agent and has the state of the case's tools.
type player struct {
	mu       sync.Mutex
	reported map[string]chan struct{} // by tool; closed when the first result of the tool is reported
	turns    map[string]int           // by tool; number of turns that began
	calls    []wire.ToolCall          // calls that reached a tool
	cancel   context.CancelFunc       // cancels the current run
}

// play runs agent a and appends the events to out. At each pause it resumes the run as agent later
// with the case's next answer. It returns when the run ends, or when it pauses and no answer is
// left.
func (p *player) play(ctx context.Context, r *wire.Request, a, later *agent.Agent, out *wire.Outcome) error {
	ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	events := a.RunFor(ctx, agent.Input{Messages: r.Messages, RunID: r.RunID, Metadata: r.Metadata}, client(r))
	for n := 0; ; n++ {
		var paused *agent.PausedError
		for e, err := range events {
			out.Events = append(out.Events, e.Event)
			out.Client = append(out.Client, e.Encoded...)
			_ = errors.As(err, &paused)
			if e.Event.Type == abi.EventToolResult {
				p.reportResult(e.Event.Call.Name)
			}
		}
		if paused == nil || n == len(r.Answers) {
			return nil
		}
		var err error
		if events, err = later.ResumeFor(ctx, paused.State,
			answersTo(&r.Answers[n], paused.Interrupts), client(r)); err != nil {
			return err
		}
	}
}

// answersTo maps the ID of each interrupt that a answers to the answer's value.
func answersTo(a *wire.Answer, interrupts []abi.Pending) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, i := range interrupts {
		if a.Call == "" || i.Call != nil && i.Call.ID == a.Call {
			out[i.ID] = a.Value
		}
	}
	return out
}

// result returns a channel that is closed when the first result of the tool is reported.
func (p *player) result(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reported[name] == nil {
		p.reported[name] = make(chan struct{})
	}
	return p.reported[name]
}

// reportResult closes the channel that result returns for the tool, unless it is closed.
func (p *player) reportResult(name string) {
	reported := p.result(name)
	select {
	case <-reported:
	default:
		close(reported)
	}
}

// turn records a call of the tool and returns the turn that answers it. The last turn answers all
// further calls.
func (p *player) turn(t *wire.Tool, call abi.Call) *wire.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, wire.ToolCall{Name: t.Name, Arguments: call.Arguments})
	n := p.turns[t.Name]
	p.turns[t.Name]++
	return &t.Turns[min(n, len(t.Turns)-1)]
}

// tools returns the case's tools, which execute their turns.
func (p *player) tools(list []wire.Tool) []tool.Tool {
	var out []tool.Tool
	for i := range list {
		out = append(out, p.tool(&list[i]))
	}
	return out
}

func (p *player) tool(t *wire.Tool) tool.Tool {
	declaration := abi.Tool{Name: t.Name}
	if t.Streams {
		return tool.StreamFunc(declaration, func(_ context.Context, call abi.Call, out *tool.Out) (*abi.Result, error) {
			return nil, stream(p.turn(t, call), out)
		})
	}
	return tool.Func(declaration, func(ctx context.Context, call abi.Call) (*abi.Result, error) {
		return p.call(ctx, p.turn(t, call))
	})
}

// stream sends the chunks of a turn, and returns the turn's error if it has one.
func stream(t *wire.Turn, out *tool.Out) error {
	for _, piece := range t.Chunks {
		if err := out.Text(piece); err != nil {
			return err
		}
	}
	if t.Error != "" {
		return errors.New(t.Error)
	}
	return nil
}

// call executes a turn of a tool that does not stream.
func (p *player) call(ctx context.Context, t *wire.Turn) (*abi.Result, error) {
	if t.After != "" {
		select {
		case <-p.result(t.After):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case t.Cancels:
		p.cancel()
	case t.Panic != "":
		panic(t.Panic)
	case t.Error != "":
		return nil, errors.New(t.Error)
	}
	return abi.TextResult(t.Text), nil
}
