package rerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// A Pass is one replay of a run. It is a model that gives the recorded answers of the run, and
// records the data that was sent to the model and the tools. A Pass runs once.
type Pass struct {
	run     *Run
	own     *Pass                      // the replay with the run's own modules; nil for that replay itself
	asked   []abi.Pending              // the interrupts of the run
	answers map[string]json.RawMessage // by the ids of asked

	events []abi.Event
	note   string // why the replay ended early

	mu       sync.Mutex
	requests []sentRequest
	calls    map[runlog.CallKey]string // arguments that were sent to tools
	hooks    map[HookCall]*HookCost
	seed     maphash.Seed // of the hashes of answers; equal in the passes of a comparison
	hashes   int          // number of hashes of all hooks
}

// A sentRequest is a request that was sent to the model.
type sentRequest struct {
	runlog.CallKey
	entry string // the entry that made the call for itself, or ""
	*model.Request
}

// isOwn reports whether a middleware made the call for itself.
func (s *sentRequest) isOwn() bool { return !strings.HasPrefix(s.Key, "model#") }

// NewPass returns a replay of a run. own is the ended replay of the run with its own modules. It is
// nil if the new replay is the one with the run's own modules.
func NewPass(run *Run, own *Pass) *Pass {
	r := &Pass{
		run:     run,
		own:     own,
		answers: maps.Clone(run.History.Answers),
		calls:   map[runlog.CallKey]string{},
		hooks:   map[HookCall]*HookCost{},
		seed:    maphash.MakeSeed(),
	}
	if own != nil {
		r.seed = own.seed
	}
	if r.answers == nil {
		r.answers = map[string]json.RawMessage{}
	}
	for _, given := range run.History.Answered {
		maps.Copy(r.answers, given.Answers)
	}
	known := map[string]bool{}
	for _, e := range run.Events {
		for _, i := range e.Interrupts {
			if !known[i.ID] {
				known[i.ID] = true
				r.asked = append(r.asked, i)
			}
		}
	}
	return r
}

// Isolate sets the options of an agent of file f that the pass runs. The agent gets the model, tools
// and values of the pass, so that the replay has no effects outside of the process.
func (r *Pass) Isolate(f *agentfile.File, o *host.FileOptions) {
	o.Model, o.ToolsOf, o.Tracer = r, r.toolsOf(f), passTracer{r}
	o.Values = &values{rows: map[valueKey]contract.LocalValue{}}
	o.Network = &host.Network{Hosts: []string{}}             // no host is allowed
	o.Getenv = func(string) string { return "not-replayed" } // keys and secrets, which nothing uses
	o.Journal = nil
}

// Note returns the reason why the replay ended before the run did, or "" if it did not.
func (r *Pass) Note() string { return r.note }

// Events returns the events of the replay.
func (r *Pass) Events() []abi.Event { return r.events }

// answersOf returns the recorded answers to the interrupts of the replay, by id. The ids may differ
// from those of the run, because they depend on the order of concurrent calls. answersOf uses each
// answer once.
func (r *Pass) answersOf(interrupts []abi.Pending) map[string]json.RawMessage {
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

// maxEventBytes limits the events that a replay holds in memory.
const maxEventBytes = 64 << 20

var errTooLarge = fmt.Errorf("the replay has events of more than %d bytes", int64(maxEventBytes))

// asks returns the question that a tool asked in the run, or nil.
func (r *Pass) asks(run, call string) *abi.Interrupt {
	for _, p := range r.asked {
		if p.Entry == "" && callID(p.Call) == call && cmp.Or(p.Run, r.run.Info.ID) == run {
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
func (r *Pass) Generate(ctx context.Context, q *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	key, entry := callOf(ctx)
	sent := sentRequest{CallKey: key, entry: entry, Request: q}
	call, ok := r.run.Recorded.Calls[key]
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
func (r *Pass) toolsOf(f *agentfile.File) func(agent string) []tool.Tool {
	others := agentNames(f, map[string]bool{agent.TransferTool: true})
	return func(name string) []tool.Tool {
		if name == "" {
			name = r.run.Info.Agent
		}
		out := []tool.Tool{}
		for _, d := range r.run.Recorded.Tools[name] {
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
// call, or made it with other arguments. If the tool asked a question in the run, call asks the same
// question.
func (r *Pass) call(ctx context.Context, c abi.Call) (*abi.Result, error) {
	key, _ := callOf(ctx)
	_, answered := toolcall.Answer(ctx)
	if ask := r.asks(key.Run, c.ID); ask != nil && !answered {
		return nil, ask
	}
	r.mu.Lock()
	r.calls[key] = c.Arguments
	r.mu.Unlock()
	recorded, ok := r.run.Recorded.Calls[key]
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

// Run replays the run with an agent, resumes it after pauses with the recorded answers, and records
// its events. If ctx is done first, Run fails with the cause of ctx.
func (r *Pass) Run(ctx context.Context, a *host.Agent) error {
	state := r.run.History.State
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := int64(0)
	events := a.Run(ctx,
		host.Input{Messages: r.run.History.Input, RunID: state.ID, Parent: r.run.Info.Parent, Metadata: state.Metadata})
	for {
		var paused *agent.PausedError
		for e, err := range events {
			if held += size.Event(&e); held <= maxEventBytes {
				r.events = append(r.events, e)
			} else {
				cancel(errTooLarge)
			}
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
			if r.run.Info.Status == journal.StatusFinished {
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

// inOrder returns the requests of the run and its sub-agents, followed by the requests that
// middlewares made for themselves. It sorts the latter, because middlewares can make them
// concurrently.
func (r *Pass) inOrder() []sentRequest {
	type ownRequest struct {
		sentRequest
		messages string
	}
	var out []sentRequest
	var own []ownRequest
	for _, q := range r.requests {
		if q.isOwn() {
			own = append(own, ownRequest{q, newLine("", "", sentMessages(&q)).all})
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

// A passTracer makes the operation of a call available in its context, and counts hook calls.
type passTracer struct{ pass *Pass }

// An operation is a traced operation and the operation that encloses it.
type operation struct {
	tracing.Operation
	around *operation
}

type operationKey struct{}

// Start implements [host.Tracer].
func (t passTracer) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	around, _ := ctx.Value(operationKey{}).(*operation)
	return context.WithValue(ctx, operationKey{}, &operation{op, around}), func(o tracing.Outcome) {
		if op.Kind == tracing.OperationHook {
			t.pass.count(&op, &o)
		}
	}
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

// decode decodes JSON into out. It reports false if b is empty or malformed.
func decode(b []byte, out any) bool {
	if len(b) == 0 {
		return false
	}
	_, err := abijson.Decode(b, out)
	return err == nil
}
