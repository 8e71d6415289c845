package openaitest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Model   string     `json:"model"`
	Choices []choice   `json:"choices"`
	Usage   *abi.Usage `json:"usage,omitempty"`
}

type choice struct {
	Index        int          `json:"index"`
	Message      *abi.Message `json:"message,omitempty"`
	Delta        any          `json:"delta,omitempty"`
	FinishReason *string      `json:"finish_reason"`
}

// stream answers with the model's chunks as events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, req *request) {
	begun := false
	event := func(c completion) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
		}
		c.ID, c.Object, c.Model = "chatcmpl-1", "chat.completion.chunk", req.Model
		send(w, c)
	}
	res, err := s.model.Generate(r.Context(), &req.Request, func(c abi.Chunk) error {
		event(completion{Choices: []choice{{Delta: delta(c)}}})
		return nil
	})
	var e *model.Error
	switch {
	case err == nil:
	case !begun:
		fail(w, err)
		return
	case errors.As(err, &e):
		send(w, problem(e))
		return
	default:
		panic(http.ErrAbortHandler)
	}
	event(completion{Choices: []choice{{Delta: rest(&res.Message), FinishReason: &res.FinishReason}}})
	if req.usage && res.Usage != nil {
		event(completion{Choices: []choice{}, Usage: res.Usage})
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func send(w http.ResponseWriter, v any) {
	_, _ = io.WriteString(w, "data: ")
	write(w, v)
	_, _ = io.WriteString(w, "\n\n")
	_ = http.NewResponseController(w).Flush()
}

type callDelta struct {
	Index    int            `json:"index"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function map[string]any `json:"function"`
}

func delta(c abi.Chunk) any {
	switch c.Kind {
	case abi.ChunkReasoning:
		return map[string]any{"reasoning_content": c.Text}
	case abi.ChunkPart:
		return map[string]any{"content": []*abi.Part{c.Part}}
	case abi.ChunkToolCall:
		d := callDelta{Index: c.Index, ID: c.ID, Function: map[string]any{"arguments": c.Arguments}}
		if c.Name != "" {
			d.Type, d.Function["name"] = "function", c.Name
		}
		return map[string]any{"tool_calls": []callDelta{d}}
	default:
		return map[string]any{"content": c.Text}
	}
}

// rest returns the parts of a message that its chunks do not contain: fields unknown to the ABI.
func rest(m *abi.Message) any {
	out := map[string]any{}
	for _, f := range m.Unknown {
		out[f.Name] = f.Value
	}
	var calls []map[string]any
	for i, c := range m.ToolCalls {
		if len(c.Unknown) == 0 {
			continue
		}
		call := map[string]any{"index": i, "function": json.RawMessage("{}")}
		for _, f := range c.Unknown {
			call[f.Name] = f.Value
		}
		calls = append(calls, call)
	}
	if calls != nil {
		out["tool_calls"] = calls
	}
	return out
}
