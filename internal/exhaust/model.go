package exhaust

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Sizes and delays of the hostile model's answers.
const (
	longAnswer = 4 << 20
	chunkText  = 32 << 10
	manyCalls  = 64
	stepTime   = 300 * time.Millisecond
)

// newModel starts an endpoint of the OpenAI chat API. The answer depends on the model's name:
//
//	quick    one word
//	calls    64 calls of the tools that the request declares, endlessly
//	long     4 MiB of text
//	steps-N  after 0.3 s a call of the tool, N times, then the number of results received
//	endless  a stream of 32 KiB chunks that ends when the client disconnects; without streaming, like long
func newModel() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err != nil {
			return
		}
		var in struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
			Tools  []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tools"`
		}
		if err := json.Unmarshal(b, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m := message{Role: "assistant", Content: "Done."}
		switch {
		case in.Model == "endless" && in.Stream:
			endless(w)
			return
		case in.Model == "long", in.Model == "endless":
			m.Content = strings.Repeat("long ", longAnswer/5)
		case strings.HasPrefix(in.Model, "steps-"):
			time.Sleep(stepTime)
			n, _ := strconv.Atoi(strings.TrimPrefix(in.Model, "steps-"))
			if results := bytes.Count(b, []byte(`"tool_call_id"`)); results >= n {
				m.Content = fmt.Sprintf("Done after %d steps.", results)
			} else {
				c := toolCall{ID: fmt.Sprint("s", results), Type: "function"}
				c.Function.Name, c.Function.Arguments = "more", "{}"
				m.Content, m.Calls = "", []toolCall{c}
			}
		case in.Model == "calls":
			for i := 0; i < manyCalls && len(in.Tools) > 0; i++ {
				c := toolCall{Index: i, ID: fmt.Sprint("m", bytes.Count(b, []byte("tool_call_id")), "-", i), Type: "function"}
				c.Function.Name, c.Function.Arguments = in.Tools[i%len(in.Tools)].Function.Name, `{"input":"`+strings.Repeat(
					"x",
					4<<10,
				)+`"}`
				m.Calls = append(m.Calls, c)
			}
		}
		writeMessage(w, m, in.Stream)
	}))
}

type message struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// writeMessage answers with a message, as a stream of one chunk if stream is set.
func writeMessage(w http.ResponseWriter, m message, stream bool) {
	reason := "stop"
	if m.Calls != nil {
		reason = "tool_calls"
	}
	usage := map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			encode(
				map[string]any{
					"id":      "c",
					"object":  "chat.completion",
					"choices": []any{map[string]any{"index": 0, "message": m, "finish_reason": reason}},
					"usage":   usage,
				},
			),
		)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(
		w,
		"data: %s\n\n",
		encode(
			map[string]any{
				"id":      "c",
				"object":  "chat.completion.chunk",
				"choices": []any{map[string]any{"index": 0, "delta": m}},
			},
		),
	)
	fmt.Fprintf(
		w,
		"data: %s\n\n",
		encode(
			map[string]any{
				"id":      "c",
				"object":  "chat.completion.chunk",
				"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}},
				"usage":   usage,
			},
		),
	)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// endless streams chunks until the client disconnects.
func endless(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := encode(
		map[string]any{
			"id":     "c",
			"object": "chat.completion.chunk",
			"choices": []any{
				map[string]any{"index": 0, "delta": message{Role: "assistant", Content: strings.Repeat("x", chunkText)}},
			},
		},
	)
	for {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", chunk); err != nil {
			return
		}
	}
}
