// Package bench measures a module's hooks in a scripted agent run whose model
// and tools answer at once.
package bench

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// sampleMessages is a conversation of twenty messages, about 8 KB.
//
//go:embed sample.json
var sampleMessages []byte

// DefaultRuns is the number of times that [Run] plays the conversation by default.
const DefaultRuns = 20

// Options configures [Run].
type Options struct {
	Config   json.RawMessage
	Grants   policy.Grants
	Messages []abi.Message // defaults to a conversation of twenty messages
	Runs     int           // defaults to DefaultRuns
}

// A Row is the usage of one hook. Its values are medians over all calls of the hook, unless a field
// says otherwise.
type Row struct {
	Hook      abi.Hook `json:"hook"`
	Calls     int      `json:"calls"`
	Fuel      uint64   `json:"fuel"`
	TimeNS    int64    `json:"time_ns"` // includes encoding and decoding on the host; excludes waiting in next
	BytesIn   int64    `json:"bytes_in"`
	BytesOut  int64    `json:"bytes_out"`
	HostCalls int      `json:"host_calls"`
	Pages     int64    `json:"pages_grown"` // pages of 64 KiB; the maximum of one call
	// Failed is the number of calls that returned an error, and Faulted is the number of calls that
	// faulted. Problem is the message of the first such call.
	Failed  int    `json:"failed,omitempty"`
	Faulted int    `json:"faulted,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Run runs the module's hooks on a conversation like an agent whose model and tools answer at once.
// Run returns a row per hook, in the order in which an agent run calls them. Every hook is called,
// even after an earlier hook failed or stopped the run, with two exceptions: call_tool is called
// only if the module adds a tool, and the circuit breaker disables a module that faults repeatedly
// for the rest of the run.
//
// Run returns an error if a message or the configuration is invalid, if the run cannot start, or if
// ctx is done.
func Run(ctx context.Context, m *module.Module, o *Options) ([]Row, error) {
	messages, err := benchMessages(o.Messages)
	if err != nil {
		return nil, err
	}
	mw, err := module.Configure(ctx, m, "bench", o.Config, o.Grants)
	if err != nil {
		return nil, err
	}
	defer mw.Close()
	b := &bench{messages: messages, samples: map[abi.Hook][]module.CallReport{}}
	mw.OnCall(func(r module.CallReport) { b.samples[r.Hook] = append(b.samples[r.Hook], r) })
	for range cmp.Or(o.Runs, DefaultRuns) {
		if err := b.run(ctx, hook.Entry{Name: "bench", Middleware: mw, OnFault: hook.Skip, Read: o.Grants.Read}); err != nil {
			return nil, err
		}
	}
	var rows []Row
	for _, h := range m.Info().Hooks {
		rows = append(rows, b.row(h))
	}
	return rows, nil
}

// benchMessages validates a conversation and sets the ids and origins that the host sets in a run.
// Nil is the sample conversation.
func benchMessages(messages []abi.Message) ([]abi.Message, error) {
	if messages == nil {
		if err := json.Unmarshal(sampleMessages, &messages); err != nil {
			return nil, err
		}
	}
	if len(messages) == 0 {
		return nil, errors.New("a conversation needs at least one message")
	}
	messages = slices.Clone(messages)
	for i := range messages {
		if err := contract.CheckMessage(&messages[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i].ID = fmt.Sprintf("msg_%d", i+1)
		messages[i].Origin = cmp.Or(
			messages[i].Origin,
			map[string]string{abi.RoleAssistant: abi.OriginModel, abi.RoleTool: abi.OriginTool}[messages[i].Role],
			abi.OriginUser,
		)
	}
	return messages, nil
}

// A bench collects reports of hook calls, and is the host of its runs. It is not safe for
// concurrent use.
type bench struct {
	messages []abi.Message
	samples  map[abi.Hook][]module.CallReport
	ids      int
}

func (b *bench) row(h abi.Hook) Row {
	samples := b.samples[h]
	row := Row{Hook: h, Calls: len(samples)}
	if len(samples) == 0 {
		return row
	}
	row.Fuel = median(samples, func(r module.CallReport) uint64 { return r.Fuel })
	row.TimeNS = median(samples, func(r module.CallReport) int64 { return r.Time.Nanoseconds() })
	row.BytesIn = median(samples, func(r module.CallReport) int64 { return r.BytesIn })
	row.BytesOut = median(samples, func(r module.CallReport) int64 { return r.BytesOut })
	row.HostCalls = median(samples, func(r module.CallReport) int { return r.HostCalls })
	for _, s := range samples {
		row.Pages = max(row.Pages, s.Grown/(64<<10))
		var failed *abi.Error
		switch {
		case s.Faulted:
			row.Faulted++
		case errors.As(s.Err, &failed):
			row.Failed++
		default:
			continue
		}
		row.Problem = cmp.Or(row.Problem, problem(s.Err))
	}
	return row
}

// problem returns the text of an error on one line.
func problem(err error) string {
	text := err.Error()
	var fault *ending.FaultError
	if errors.As(err, &fault) {
		text = ending.FaultText(fault)
	}
	return fmt.Sprintf("%.500s", strings.Join(strings.Fields(text), " "))
}

func median[N cmp.Ordered](samples []module.CallReport, of func(module.CallReport) N) N {
	all := make([]N, len(samples))
	for i, s := range samples {
		all[i] = of(s)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Where returns a fixed position, step 1 of a run. Where, Send and NewID implement hook.Host.
func (b *bench) Where() abi.Run {
	return abi.Run{ID: "run_bench", Agent: "bench", Step: 1, StepID: "step_1", MaxSteps: 20, NowMS: 1_767_225_600_000}
}

// Send returns e unchanged. It sends the event nowhere.
func (b *bench) Send(e abi.Event) abi.Event { return e }

// NewID returns an id for a message.
func (b *bench) NewID() string {
	b.ids++
	return fmt.Sprintf("new_%d", b.ids)
}

var benchTools = []abi.Tool{
	{Name: "search", Description: "Searches files for a text.", Owner: "host", Idempotent: true,
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"query":{"type":"string"},"path":{"type":"string"}},"required":["query"]}`,
		)},
	{Name: "read_file", Description: "Reads a file.", Owner: "host", Idempotent: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
}

// run plays an agent run of one step in a new chain whose only entry is e. The run continues if a
// hook fails. The method returns an error if the chain cannot be opened or ctx is done.
func (b *bench) run(ctx context.Context, e hook.Entry) error {
	c, err := chain.New(e)
	if err != nil {
		return err
	}
	r, err := c.Open(ctx, abi.Run{ID: "run_bench"}, b, local.New())
	if err != nil {
		return err
	}
	defer r.Close()
	b.ids = 0
	revisions := message.NewRevisions()
	s := chain.Start{Instruction: "You help with files. Be brief.", Tools: benchTools, Model: "gpt-4o-mini",
		Params: abi.Params{
			"temperature": json.RawMessage("0.2"),
		}, Limits: abi.RunLimits{MaxSteps: 20}, Messages: message.NewList(revisions, b.messages),
		MaxSteps: 20, Allow: func(string, abi.Params) error { return nil }}
	r.Note(&abi.Event{Type: abi.EventRunStarted, Agent: "bench", Model: s.Model})
	if changed, err := r.BeforeAgent(ctx, s); err == nil {
		s = changed
	}
	d := chain.Draft{Messages: s.Messages, Tools: s.Tools, Model: s.Model, Params: s.Params}
	for _, t := range s.Tools {
		d.Active = append(d.Active, t.Name)
	}
	if changed, err := r.BeforeModelRewriteState(ctx, d); err == nil {
		d = changed
	}
	res := b.callModel(ctx, r, s.Instruction, d, revisions)
	d.Messages = d.Messages.Append(res.Message)
	if changed, err := r.AfterModelRewriteState(ctx, d); err == nil {
		d.Messages = changed
	}
	d.Messages = b.callTools(ctx, r, d, s.Tools)
	final := abi.Assistant("There are three files of orders.")
	r.Note(&abi.Event{Type: abi.EventRunFinished, FinishReason: abi.RunStop, Message: &final, Usage: res.Usage})
	r.AfterAgent(ctx, chain.End{
		Messages:     d.Messages,
		NewFrom:      len(b.messages),
		Final:        &final,
		FinishReason: abi.RunStop,
		Usage:        abi.Usage{TotalTokens: 3210},
	})
	r.Observe(ctx)
	return context.Cause(ctx)
}

// callModel makes a model call whose response arrives in several chunks and contains two tool
// calls. If the call fails, callModel returns the scripted response.
func (b *bench) callModel(
	ctx context.Context,
	r *chain.Run,
	instruction string,
	d chain.Draft,
	revisions *message.Revisions,
) *abi.Response {
	m := abi.Assistant("I will look for the orders, and then read the newest file.")
	m.ID, m.Origin = b.NewID(), abi.OriginModel
	m.ToolCalls = []abi.ToolCall{
		abi.NewToolCall("call_a", "search", `{"query":"orders","path":"."}`),
		abi.NewToolCall("call_b", "read_file", `{"path":"orders/2025-w51.csv"}`),
	}
	said := &abi.Response{
		Message:      m,
		FinishReason: abi.FinishToolCalls,
		Usage:        &abi.Usage{PromptTokens: 3100, CompletionTokens: 110, TotalTokens: 3210},
	}
	system := message.NewList(revisions, []abi.Message{abi.System(instruction)})
	res, _, err := r.CallModel(ctx, chain.ModelCall{
		Request: chain.ModelRequest{
			Messages: d.Messages.Prefixed(nil, system),
			Tools:    d.Tools,
			Model:    d.Model,
			Params:   d.Params,
			Stream:   true,
		},
		State:     d.Messages,
		Out:       func(context.Context, []abi.Chunk, bool) error { return nil },
		Delivered: func() bool { return false },
		Generate: func(ctx context.Context, _ chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
			if out == nil {
				return said, nil
			}
			var chunks []abi.Chunk
			for _, word := range strings.SplitAfter(m.Content.String(), " ") {
				chunks = append(chunks, abi.Chunk{Kind: abi.ChunkText, Text: word})
			}
			whole := said.Message.Chunks()
			chunks = append(chunks, whole[1:]...) // tool calls
			for len(chunks) > 0 {
				n := min(4, len(chunks))
				if err := out(ctx, chunks[:n], n == len(chunks)); err != nil {
					return nil, err
				}
				chunks = chunks[n:]
			}
			return said, nil
		},
	})
	if err != nil {
		return said
	}
	r.Note(&abi.Event{Type: abi.EventMessage, Message: &res.Message})
	return res
}

// callTools makes two calls of the agent's tools, and one call of each tool that the module added.
// callTools returns the conversation with the results added.
func (b *bench) callTools(ctx context.Context, r *chain.Run, d chain.Draft, tools []abi.Tool) *message.List {
	calls := []abi.Call{
		{ID: "call_a", Name: "search", Arguments: `{"query":"orders","path":"."}`},
		{ID: "call_b", Name: "read_file", Arguments: `{"path":"orders/2025-w51.csv"}`},
	}
	for i, t := range tools {
		if t.Owner == "bench" {
			calls = append(calls, abi.Call{ID: fmt.Sprintf("call_own_%d", i), Name: t.Name, Arguments: "{}"})
		}
	}
	text := b.messages[len(b.messages)-1].Content.String() + strings.Repeat(
		"orders/2025-w51.csv:3: 1002,Hotel Flandria,croissant,80,Tue\n",
		20,
	)
	for i := range calls {
		t := benchTools[min(i, len(benchTools)-1)]
		if at := slices.IndexFunc(tools, func(t abi.Tool) bool { return t.Name == calls[i].Name }); at >= 0 {
			t = tools[at]
		}
		calls[i].Owner, calls[i].Idempotent = t.Owner, t.Idempotent
		r.Note(&abi.Event{Type: abi.EventToolCall, Call: &calls[i]})
		o, err := r.CallTool(ctx, chain.ToolCall{Call: calls[i], Tool: t, State: d.Messages,
			Run: func(context.Context, abi.Call, *abi.Resume, pipe.Sink) (*abi.Result, error) {
				return abi.TextResult(text), nil
			}})
		if err != nil {
			o = chain.ToolOutcome{Call: calls[i], Result: abi.TextResult(text), Source: "tool"}
		}
		def := abi.ToolMessage(calls[i].ID, calls[i].Name, o.Result.Content)
		def.ID, def.Origin = b.NewID(), abi.OriginTool
		recorded, err := r.ToolMessages(ctx, d.Messages, t, o, def)
		if err != nil {
			recorded = []abi.Message{def}
		}
		r.Note(&abi.Event{Type: abi.EventToolResult, Call: &o.Call, Result: o.Result, Source: o.Source})
		d.Messages = d.Messages.Append(recorded...)
	}
	if changed, err := r.AfterTools(ctx, d.Messages, calls); err == nil {
		return changed
	}
	return d.Messages
}
