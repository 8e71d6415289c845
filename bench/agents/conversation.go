package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
)

// The conversation has a history with an unanswered call, a question, three tool calls in three
// steps, and an answer in chunks. Two of the calls are identical, and one is not allowed.

const (
	question  = "Who ordered croissants?"
	answer    = "Three people did: ann@example.com for Monday, bob@example.org for Tuesday, and carol@example.net, who wants them every day of the week but Sunday."
	redacted  = "Three people did: [address] for Monday, [address] for Tuesday, and [address], who wants them every day of the week but Sunday."
	arguments = `{"query":"croissants"}`
	forbidden = `{"query":"/etc/passwd"}`
	dangling  = "old" // id of the unanswered call
	canceled  = "This call was canceled."
)

// history returns n messages and then the question. The last of the n messages has an unanswered
// tool call; the others hold about 1 KB each.
func history(n int) []abi.Message {
	filler := strings.Repeat("They are baked at five and delivered at seven. ", 21)
	var out []abi.Message
	for i := range n {
		m := abi.User(fmt.Sprintf("%d. %s", i, filler))
		if i%2 == 1 {
			m = abi.Assistant(fmt.Sprintf("%d. %s", i, filler))
		}
		if i == n-1 {
			m = abi.Assistant("I look.")
			m.ToolCalls = []abi.ToolCall{abi.NewToolCall(dangling, "search", arguments)}
		}
		out = append(out, m)
	}
	return append(out, abi.User(question))
}

// found returns the text of the tool's result, which is about 1 KB long.
func found() string {
	return strings.Repeat(
		"1002,Hotel Flandria,croissant,80,Tue\n",
		12,
	) + "contact: ann@example.com\n" + strings.Repeat(
		"1003,Cafe Mitte,croissant,20,Wed\n",
		12,
	)
}

func search() tool.Tool {
	return tool.Func(
		abi.Tool{
			Name:        "search",
			Description: "Searches the orders.",
			Parameters:  []byte(`{"type":"object","properties":{"query":{"type":"string"}}}`),
		},
		func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
			runCountsOf(ctx).calls.Add(1)
			return abi.TextResult(found()), nil
		},
	)
}

// runCounts counts a run's tool calls, and its model requests in which the history was repaired.
type runCounts struct {
	calls    atomic.Int64 // number of tool calls that the cache did not answer
	repaired atomic.Int64 // number of model requests in which the history's call had an answer
}

type runCountsKey struct{}

// withRunCounts returns new counts for one run, and a context that holds them.
func withRunCounts(ctx context.Context) (context.Context, *runCounts) {
	w := &runCounts{}
	return context.WithValue(ctx, runCountsKey{}, w), w
}

// runCountsOf returns the runCounts of a run's context, or unused ones if the context has none.
func runCountsOf(ctx context.Context) *runCounts {
	if w, ok := ctx.Value(runCountsKey{}).(*runCounts); ok {
		return w
	}
	return &runCounts{}
}

// step returns the model's text, or the arguments of its next call of the tool. results is the number
// of tool results since the question.
func step(results int) (text, call string) {
	switch results {
	case 0, 1:
		return "", arguments
	case 2:
		return "", forbidden
	default:
		return answer, ""
	}
}

// instant is a stateless model that answers at once, in chunks.
type instant struct{}

// Generate implements [model.Model].
func (instant) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	for i, m := range req.Messages[1:] {
		if m.ToolCallID == dangling && m.Content.String() == canceled && len(req.Messages[i].ToolCalls) > 0 {
			runCountsOf(ctx).repaired.Add(1)
		}
	}
	results := 0
	for i := len(req.Messages) - 1; req.Messages[i].Role != abi.RoleUser; i-- {
		if req.Messages[i].Role == abi.RoleTool {
			results++
		}
	}
	text, call := step(results)
	m, finish := abi.Assistant(text), abi.FinishStop
	if call != "" {
		m.ToolCalls, finish = []abi.ToolCall{
			abi.NewToolCall(fmt.Sprintf("call_%d", results), "search", call),
		}, abi.FinishToolCalls
	}
	chunks := m.Chunks()
	if call == "" {
		chunks = nil
		for _, word := range strings.SplitAfter(text, " ") {
			chunks = append(chunks, abi.Chunk{Kind: abi.ChunkText, Text: word})
		}
	}
	for _, c := range chunks {
		if err := sink(c); err != nil {
			return nil, err
		}
	}
	return &abi.Response{Message: m, FinishReason: finish}, nil
}

// A result is the outcome of a run. It must be the same for all peers.
type result struct {
	Text    string // streamed text
	Chunks  int
	Results []string
	Calls   int64          // number of tool calls that the cache did not answer
	Mended  int64          // number of model requests in which the history's call had an answer
	Counts  map[string]int // messages and results that the observer counted
}

// want returns the result that each run of each peer must have.
func want() result {
	clean := strings.ReplaceAll(found(), "ann@example.com", "[address]")
	return result{
		Text:    redacted,
		Chunks:  strings.Count(answer, " ") + 1,
		Results: []string{clean, clean, "this is not allowed here"},
		Calls:   1,
		Mended:  4,
		Counts:  map[string]int{"message": 4, "tool_result": 3},
	}
}

// same returns an error that describes a difference between r and w, or nil if there is none.
func (r *result) same(w result) error {
	if r.Text != w.Text {
		return fmt.Errorf("the text is %q", r.Text)
	}
	if r.Chunks != w.Chunks {
		return fmt.Errorf("the text came in %d chunks", r.Chunks)
	}
	if r.Calls != w.Calls {
		return fmt.Errorf("the tool was called %d times", r.Calls)
	}
	if r.Mended != w.Mended {
		return fmt.Errorf("in %d requests the old call had its answer", r.Mended)
	}
	if len(r.Results) != len(w.Results) {
		return fmt.Errorf("there are %d results", len(r.Results))
	}
	for i := range w.Results {
		if !strings.Contains(r.Results[i], w.Results[i]) {
			return fmt.Errorf("result %d is %.200q", i, r.Results[i])
		}
	}
	for name, n := range w.Counts {
		if r.Counts[name] != n {
			return fmt.Errorf("the observer counted %v", r.Counts)
		}
	}
	return nil
}
