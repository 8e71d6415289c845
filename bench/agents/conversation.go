package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
)

// The conversation: some history with a call that nobody answered, a question,
// three calls of tools in three steps, one of them twice and one that is not
// allowed, and an answer in pieces.

const (
	question  = "Who ordered croissants?"
	answer    = "Three people did: ann@example.com for Monday, bob@example.org for Tuesday, and carol@example.net, who wants them every day of the week but Sunday."
	redacted  = "Three people did: [address] for Monday, [address] for Tuesday, and [address], who wants them every day of the week but Sunday."
	arguments = `{"query":"croissants"}`
	forbidden = `{"query":"/etc/passwd"}`
)

// history is n messages of about 1 KB, the last but one with a call that was
// never answered.
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
			m.ToolCalls = []abi.ToolCall{abi.NewToolCall("old", "search", arguments)}
		}
		out = append(out, m)
	}
	return append(out, abi.User(question))
}

// found is what the tool says, about 1 KB.
func found() string {
	return strings.Repeat("1002,Hotel Flandria,croissant,80,Tue\n", 12) + "contact: ann@example.com\n" + strings.Repeat("1003,Cafe Mitte,croissant,20,Wed\n", 12)
}

func search() tool.Tool {
	return tool.Func(abi.Tool{Name: "search", Description: "Searches the orders.", Parameters: []byte(`{"type":"object","properties":{"query":{"type":"string"}}}`)},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult(found()), nil })
}

// step says how far the conversation is: how many results came since the question.
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

// instant is a model that answers at once, in pieces, and remembers nothing.
type instant struct{}

// Generate implements [model.Model].
func (instant) Generate(_ context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	results := 0
	for i := len(req.Messages) - 1; req.Messages[i].Role != abi.RoleUser; i-- {
		if req.Messages[i].Role == abi.RoleTool {
			results++
		}
	}
	text, call := step(results)
	m, finish := abi.Assistant(text), abi.FinishStop
	if call != "" {
		m.ToolCalls, finish = []abi.ToolCall{abi.NewToolCall(fmt.Sprintf("call_%d", results), "search", call)}, abi.FinishToolCalls
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

// A result is what a run came to: all peers have the same.
type result struct {
	Text    string // that was streamed
	Results []string
	Counts  map[string]int // of messages and results that the observer saw
}

func want() result {
	clean := strings.ReplaceAll(found(), "ann@example.com", "[address]")
	return result{Text: redacted, Results: []string{clean, clean, "this is not allowed here"}, Counts: map[string]int{"message": 4, "tool_result": 3}}
}

func (r *result) same(w result) error {
	if r.Text != w.Text {
		return fmt.Errorf("the text is %q", r.Text)
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
