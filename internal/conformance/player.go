package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
)

// A player runs a case's agent, and is what its tools know of the run.
type player struct {
	mu     sync.Mutex
	told   map[string]chan struct{} // by tool: is closed when its result was told
	calls  map[string]int           // by tool
	cancel context.CancelFunc       // ends the run that is under way
}

// play runs the agent through its pauses, as far as there are answers; later
// is what it has become then.
func (p *player) play(ctx context.Context, c *Case, a, later *agent.Agent, out *Outcome) error {
	ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	events := a.RunFor(ctx, agent.Input{Messages: c.Messages, RunID: "run"}, c.client())
	for n := 0; ; n++ {
		var paused *agent.PausedError
		for e, err := range events {
			out.Events = append(out.Events, e.Event)
			out.Client = append(out.Client, e.Encoded...)
			_ = errors.As(err, &paused)
			if e.Event.Type == abi.EventToolResult {
				p.tell(e.Event.Call.Name)
			}
		}
		if paused == nil || n == len(c.Answers) {
			return nil
		}
		var err error
		if events, err = later.ResumeFor(ctx, paused.State, c.Answers[n].to(paused.Interrupts), c.client()); err != nil {
			return err
		}
	}
}

// to is the answer by the ids of the interrupts that it is for.
func (a *Answer) to(interrupts []abi.Pending) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, i := range interrupts {
		if a.Call == "" || i.Call != nil && i.Call.ID == a.Call {
			out[i.ID] = a.Value
		}
	}
	return out
}

// result is closed when a result of the tool was told.
func (p *player) result(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[name] == nil {
		p.told[name] = make(chan struct{})
	}
	return p.told[name]
}

func (p *player) tell(name string) {
	told := p.result(name)
	select {
	case <-told:
	default:
		close(told)
	}
}

// turn is the one of a tool's lines that its next call is answered with.
func (p *player) turn(lines []Tool) Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := lines[0].Name
	n := p.calls[name]
	p.calls[name]++
	return lines[min(n, len(lines)-1)]
}

// tools are the case's: one of each name.
func (c *Case) tools(p *player) []tool.Tool {
	var out []tool.Tool
	lines := map[string][]Tool{}
	for _, t := range c.Tools {
		lines[t.Name] = append(lines[t.Name], t)
	}
	for _, t := range c.Tools {
		if all := lines[t.Name]; all != nil {
			delete(lines, t.Name)
			out = append(out, p.tool(all))
		}
	}
	return out
}

// tool is the one of some lines; it streams if the first of them does.
func (p *player) tool(lines []Tool) tool.Tool {
	declaration := abi.Tool{Name: lines[0].Name}
	if lines[0].Streams {
		return tool.StreamFunc(declaration, func(_ context.Context, _ abi.Call, out *tool.Out) (*abi.Result, error) {
			return nil, p.turn(lines).stream(out)
		})
	}
	return tool.Func(declaration, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		return p.call(ctx, p.turn(lines))
	})
}

// stream says the pieces of a line.
func (t Tool) stream(out *tool.Out) error {
	pieces := strings.Split(t.Result, "|")
	var failed error
	if t.Fails {
		failed = errors.New(pieces[len(pieces)-1])
		pieces = pieces[:len(pieces)-1]
	}
	for _, piece := range pieces {
		if err := out.Text(piece); err != nil {
			return err
		}
	}
	return failed
}

// call does what one line of a tool says.
func (p *player) call(ctx context.Context, t Tool) (*abi.Result, error) {
	switch {
	case t.After != "":
		select {
		case <-p.result(t.After):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case t.Cancels:
		p.cancel()
	case t.Panics:
		panic(t.Result)
	case t.Fails:
		return nil, errors.New(t.Result)
	}
	return abi.TextResult(t.Result), nil
}
