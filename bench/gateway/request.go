package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources holds files of this repository whose text requests contain, as if a coding agent had read
// them.
var sources = []string{
	"README.md", "internal/gateway/exchange.go", "docs/gateway.md", "internal/gateway/wire/chat/stream.go", "go.mod",
	"internal/gateway/reply.go", "CHANGELOG.md", "host/gateway/gateway.go", "docs/security.md",
}

// pieceBytes is the length of a tool's result.
const pieceBytes = 4000

// A message is a message of chat completions.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	CallID  string `json:"tool_call_id,omitempty"`
	Calls   []call `json:"tool_calls,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Arguments   string          `json:"arguments,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type definition struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// A history generates messages of a coding agent that reads files. It has no end.
type history struct{ texts []string }

// newHistory reads the sources below root.
func newHistory(root string) (*history, error) {
	h := &history{}
	for _, name := range sources {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		h.texts = append(h.texts, strings.ToValidUTF8(string(b), ""))
	}
	return h, nil
}

// piece returns part n of the sources, of at most size bytes. It repeats the sources after their end.
func (h *history) piece(n, size int) string {
	text := h.texts[n%len(h.texts)]
	from := n / len(h.texts) * pieceBytes % len(text)
	return strings.ToValidUTF8(text[from:min(len(text), from+size)], "")
}

// request returns the body of a request of about size bytes.
func (h *history) request(stream bool, size int) ([]byte, error) {
	messages := []message{{Role: "user", Content: "Find out why the request fails, and repair it. Write a test."}}
	var b []byte
	for n := 0; len(b) < size-400; n++ {
		id := fmt.Sprint("call_", n)
		read := function{Name: "read_file", Arguments: fmt.Sprintf(`{"path":%q,"limit":200}`, sources[n%len(sources)])}
		piece := h.piece(n, min(pieceBytes, max(size-len(b)-600, 100)))
		messages = append(messages,
			message{Role: "assistant", Content: "I read the next file.", Calls: []call{{id, "function", read}}},
			message{Role: "tool", Content: piece, CallID: id})
		var err error
		b, err = json.Marshal(struct {
			Model    string       `json:"model"`
			Stream   bool         `json:"stream"`
			Tools    []definition `json:"tools"`
			Messages []message    `json:"messages"`
		}{"m", stream, tools(), messages})
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

func tools() []definition {
	var out []definition
	for _, name := range []string{"read_file", "rm"} {
		out = append(out, definition{"function", function{Name: name, Description: "Works on a file.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}})
	}
	return out
}
