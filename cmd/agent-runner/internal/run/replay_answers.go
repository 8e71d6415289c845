package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// A replayed is one replay of a run. It is a model that gives the recorded answers of the run, and
// notes what the model and the tools were sent.
type replayed struct {
	run      *exported
	recorded *runlog.Recorded
	own      *replayed                  // the replay with the run's own modules; nil for that replay itself
	asked    []abi.Pending              // the interrupts of the run
	answers  map[string]json.RawMessage // by the ids of asked

	events []abi.Event
	note   string // why the replay ended early

	mu       sync.Mutex
	requests []sentRequest
	calls    map[runlog.CallKey]string // arguments that tools were sent
}

// A sentRequest is a request that the model was sent.
type sentRequest struct {
	runlog.CallKey
	entry string // the entry that made the call for itself, or ""
	*model.Request
}

// isOwn reports whether a middleware made the call for itself.
func (s *sentRequest) isOwn() bool { return !strings.HasPrefix(s.Key, "model#") }

func newReplayed(p *Replay, own *replayed) *replayed {
	r := &replayed{
		run:      p.run,
		recorded: p.recorded,
		own:      own,
		answers:  maps.Clone(p.run.History.Answers),
		calls:    map[runlog.CallKey]string{},
	}
	for _, given := range p.run.History.Answered {
		maps.Copy(r.answers, given.Answers)
	}
	known := map[string]bool{}
	for _, e := range p.run.Events {
		for _, i := range e.Interrupts {
			if !known[i.ID] {
				known[i.ID] = true
				r.asked = append(r.asked, i)
			}
		}
	}
	return r
}

// answersOf returns the recorded answers to interrupts, by their ids, which depend on the order of
// concurrent calls. It uses each answer once.
func (r *replayed) answersOf(interrupts []abi.Pending) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, p := range interrupts {
		at := slices.IndexFunc(r.asked, func(o abi.Pending) bool {
			return o.Run == p.Run && o.Entry == p.Entry && o.Hook == p.Hook && callID(o.Call) == callID(p.Call) &&
				r.answers[o.ID] != nil
		})
		if at >= 0 {
			out[p.ID] = r.answers[r.asked[at].ID]
			delete(r.answers, r.asked[at].ID)
		}
	}
	return out
}

// asks returns the question that a tool asked in the run, or nil.
func (r *replayed) asks(run, call string) *abi.Interrupt {
	for _, p := range r.asked {
		if p.Entry == "" && callID(p.Call) == call && cmp.Or(p.Run, r.run.Run.ID) == run {
			return &abi.Interrupt{Reason: p.Reason, Payload: p.Payload}
		}
	}
	return nil
}

func callID(c *abi.Call) string {
	if c == nil {
		return ""
	}
	return c.ID
}

// Generate implements [model.Model].
func (r *replayed) Generate(ctx context.Context, q *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	key, entry := callOf(ctx)
	sent := sentRequest{CallKey: key, entry: entry, Request: q}
	call, ok := r.recorded.Calls[key]
	r.mu.Lock()
	r.requests = append(r.requests, sent)
	if (!ok || !call.Done) && !sent.isOwn() {
		r.note = "The replay stops here: it needs another model answer, and the run recorded no more."
	}
	r.mu.Unlock()
	var res abi.Response
	switch {
	case !ok || !call.Done:
		return nil, model.Errorf(abi.CodeModel, "the run recorded no answer to this model call")
	case call.Failed != nil:
		f := call.Failed
		return nil, &model.Error{Code: f.Code, Message: f.Message, Status: f.Status, Retryable: f.Retryable,
			RetryAfter: time.Duration(f.RetryAfterMS) * time.Millisecond}
	case !decode(call.Answer, &res):
		return nil, model.Errorf(abi.CodeModel, "the recorded answer to this model call is not readable")
	}
	if sink != nil {
		for _, c := range res.Message.Chunks() {
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	return &res, nil
}

// toolsOf returns a function that returns the recorded tools of an agent of a file. The host adds
// the tools that are agents, and the one that transfers the conversation.
func (r *replayed) toolsOf(f *agentfile.File) func(agent string) []tool.Tool {
	others := agentNames(f, map[string]bool{agent.TransferTool: true})
	return func(name string) []tool.Tool {
		if name == "" {
			name = r.run.Run.Agent
		}
		out := []tool.Tool{}
		for _, d := range r.recorded.Tools[name] {
			if !others[d.Name] {
				d.Owner = ""
				out = append(out, tool.Func(d, r.call))
			}
		}
		return out
	}
}

// agentNames adds the names of the sub-agents of a file to names.
func agentNames(f *agentfile.File, names map[string]bool) map[string]bool {
	for i := range f.Agents {
		names[f.Agents[i].Name] = true
		if inner := f.Agents[i].Spec(); inner != nil {
			agentNames(inner, names)
		}
	}
	return names
}

// call returns the recorded result or error of a tool call. It fails if the run did not make the
// call, or made it with other arguments. If the tool asked a question in the run, it asks it again.
func (r *replayed) call(ctx context.Context, c abi.Call) (*abi.Result, error) {
	key, _ := callOf(ctx)
	_, answered := toolcall.Answer(ctx)
	if ask := r.asks(key.Run, c.ID); ask != nil && !answered {
		return nil, ask
	}
	r.mu.Lock()
	r.calls[key] = c.Arguments
	r.mu.Unlock()
	recorded, ok := r.recorded.Calls[key]
	var result abi.Result
	switch {
	case !ok || !recorded.Done:
		return nil, errors.New("the run did not make this call, so its result is unknown")
	case r.own != nil && r.own.calls[key] != c.Arguments:
		return nil, errors.New("the run made this call with other arguments, so its result is unknown")
	case recorded.Failed != nil:
		return nil, recorded.Failed
	case !decode(recorded.Answer, &result):
		return nil, fmt.Errorf("the recorded result of this call is not readable")
	}
	return &result, nil
}

// again replays the run, resumes it after pauses with the recorded answers, and notes its events.
func (r *replayed) again(ctx context.Context, a *host.Agent) error {
	state := r.run.History.State
	events := a.Run(ctx,
		host.Input{Messages: r.run.History.Input, RunID: state.ID, Parent: r.run.Run.Parent, Metadata: state.Metadata})
	for {
		var paused *agent.PausedError
		for e, err := range events {
			r.events = append(r.events, e)
			errors.As(err, &paused)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if paused == nil {
			return nil
		}
		answers := r.answersOf(paused.Interrupts)
		if len(answers) == 0 {
			if r.run.Run.Status == journal.StatusFinished {
				r.note = "The replay stops here: the run would wait for an answer that was never given."
			}
			return nil
		}
		var err error
		if events, err = a.Resume(ctx, paused.State, answers); err != nil {
			return err
		}
	}
}

// inOrder returns the requests of the run and its sub-agents, then those that middlewares made for
// themselves, which they can make concurrently.
func (r *replayed) inOrder() []sentRequest {
	type ownRequest struct {
		sentRequest
		messages string
	}
	var out []sentRequest
	var own []ownRequest
	for _, q := range r.requests {
		if q.isOwn() {
			own = append(own, ownRequest{q, newLine("", sentMessages(&q)).all})
		} else {
			out = append(out, q)
		}
	}
	slices.SortStableFunc(own, func(a, b ownRequest) int {
		return cmp.Or(strings.Compare(a.entry, b.entry), strings.Compare(a.messages, b.messages))
	})
	for i := range own {
		out = append(out, own[i].sentRequest)
	}
	return out
}

// A replayTracer makes the operation of a call available in its context.
type replayTracer struct{}

// An operation is an operation and the one around it.
type operation struct {
	tracing.Operation
	around *operation
}

type operationKey struct{}

// Start implements [host.Tracer].
func (replayTracer) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	around, _ := ctx.Value(operationKey{}).(*operation)
	return context.WithValue(ctx, operationKey{}, &operation{op, around}), func(tracing.Outcome) {}
}

// callOf returns the key of the call that ctx belongs to, and the entry of the hook that makes it.
func callOf(ctx context.Context) (key runlog.CallKey, entry string) {
	op, _ := ctx.Value(operationKey{}).(*operation)
	if op == nil {
		return runlog.CallKey{}, ""
	}
	key = runlog.CallKey{Run: op.Run.ID, Step: op.Run.Step, Key: record.KeyOf(ctx)}
	for ; op != nil; op = op.around {
		if op.Kind == tracing.OperationHook {
			return key, op.Entry
		}
	}
	return key, ""
}
