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

// A player runs a case's agent and holds the state that its tools share.
type player struct {
	mu     sync.Mutex
	told   map[string]chan struct{} // by tool; closed once a result was reported
	calls  map[string]int           // by tool
	cancel context.CancelFunc       // cancels the current run
}

// play runs the agent and answers its pauses, as far as the case has answers. later is the agent
// that resumes the run.
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

// to returns the answer by the ids of the interrupts that it applies to.
func (a *Answer) to(interrupts []abi.Pending) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, i := range interrupts {
		if a.Call == "" || i.Call != nil && i.Call.ID == a.Call {
			out[i.ID] = a.Value
		}
	}
	return out
}

// result returns a channel that is closed once a result of the tool was reported.
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

// turn returns the line that answers the tool's next call. The last line answers all further calls.
func (p *player) turn(lines []Tool) Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := lines[0].Name
	n := p.calls[name]
	p.calls[name]++
	return lines[min(n, len(lines)-1)]
}

// tools returns the case's tools, one for each name.
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

// tool returns the tool of some lines. It streams if the first line does.
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

// stream sends the chunks of a line.
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

// call executes a line of a tool.
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
