// Package gatewaytest provides a scripted upstream of the gateway's protocols for tests, and reads the streams that
// clients receive.
package gatewaytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// The protocols, as in gateway.yaml.
const (
	Chat      = "chat"
	Responses = "responses"
	Messages  = "messages"
)

// Paths are the paths of the protocols' endpoints.
var Paths = map[string]string{
	Chat: "/v1/chat/completions", Responses: "/v1/responses", Messages: "/v1/messages",
}

// A Request is a request of a client, in any protocol.
type Request struct {
	Protocol string
	Header   http.Header
	Body     string
	Stream   bool
	Tools    []string // the names of the client's tools
	Calls    []string // the IDs of the calls in the history
	Results  int      // the number of their results
	Schema   bool     // asks for an answer with a JSON Schema
}

// An Upstream is a model API that answers as a script says. Like the vendors' APIs, it rejects a history in which a
// call has no result, a result has no call, or reasoning is not followed by another item.
type Upstream struct {
	*httptest.Server
	script   func(*Request) *Answer
	mu       sync.Mutex
	requests []*Request
}

// NewUpstream starts an upstream. The script is called concurrently. The caller closes the upstream.
func NewUpstream(script func(*Request) *Answer) *Upstream {
	u := &Upstream{script: script}
	u.Server = httptest.NewServer(u)
	return u
}

// Requests returns the requests that arrived, including rejected ones.
func (u *Upstream) Requests() []*Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*Request(nil), u.requests...)
}

// ServeHTTP answers a request.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	q := &Request{Header: r.Header, Body: string(body)}
	for protocol, path := range Paths {
		if r.URL.Path == path {
			q.Protocol = protocol
		}
	}
	if q.Protocol == "" || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	err := q.read()
	u.mu.Lock()
	u.requests = append(u.requests, q)
	u.mu.Unlock()
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, text(fields{"type": "error",
			"error": fields{"type": "invalid_request_error", "message": err.Error()}}))
		return
	}
	a := u.script(q)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, a.Body(q.Protocol))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range a.Events(q.Protocol) {
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
	}
}

// A tool is a tool of a request, in any protocol.
type tool struct {
	Name     string
	Function struct{ Name string }
	Tools    []tool // of a namespace, and of an item that adds tools
}

func (q *Request) addTools(list []tool) {
	for _, t := range list {
		if name := t.Name + t.Function.Name; name != "" {
			q.Tools = append(q.Tools, name)
		}
		q.addTools(t.Tools)
	}
}

// An item is an element of a history: a message of chat completions, a block of the Messages API, or an
// item of the Responses API.
type item struct {
	Type, Role string
	ID         string
	CallID     string          `json:"call_id"`
	ToolUseID  string          `json:"tool_use_id"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []item          `json:"tool_calls"`
	Content    json.RawMessage // a string or blocks
	Tools      []tool
}

// read reads the body. It returns an error if the vendor's API would reject the request.
func (q *Request) read() error {
	var body struct {
		Stream         bool
		Tools          []tool
		Messages       []item
		Input          json.RawMessage
		ResponseFormat json.RawMessage                  `json:"response_format"`
		OutputConfig   struct{ Format json.RawMessage } `json:"output_config"`
		Text           struct{ Format struct{ Type string } }
	}
	if err := json.Unmarshal([]byte(q.Body), &body); err != nil {
		return err
	}
	q.Stream = body.Stream
	q.Schema = body.ResponseFormat != nil || body.OutputConfig.Format != nil || body.Text.Format.Type == "json_schema"
	q.addTools(body.Tools)
	history := body.Messages
	if len(body.Input) > 0 && body.Input[0] == '[' {
		if err := json.Unmarshal(body.Input, &history); err != nil {
			return err
		}
	}
	p := pairs{request: q, open: map[string]bool{}}
	for i := range history {
		q.addTools(history[i].Tools)
		if err := p.add(&history[i]); err != nil {
			return err
		}
	}
	return p.end()
}

// pairs checks that a history has a result for each call.
type pairs struct {
	request   *Request
	open      map[string]bool // the calls without a result so far
	reasoning bool            // the last item was reasoning
}

func (p *pairs) add(it *item) error {
	dangling := p.reasoning && (it.Role == "user" || strings.HasSuffix(it.Type, "_output"))
	if p.reasoning = it.Type == "reasoning"; dangling {
		return errors.New("a reasoning item is not followed by the item that belongs to it")
	}
	switch it.Type {
	case "tool_use":
		return p.call(it.ID)
	case "function_call", "custom_tool_call":
		return p.call(it.CallID)
	case "tool_result":
		return p.result(it.ToolUseID)
	case "function_call_output", "custom_tool_call_output":
		return p.result(it.CallID)
	}
	if it.Role == "tool" {
		return p.result(it.ToolCallID)
	}
	for i := range it.ToolCalls {
		if it.Role == "" || it.Type != "" {
			break // a part of a content, in which the API ignores calls
		}
		if err := p.call(it.ToolCalls[i].ID); err != nil {
			return err
		}
	}
	var blocks []item
	if len(it.Content) > 0 && it.Content[0] == '[' {
		if err := json.Unmarshal(it.Content, &blocks); err != nil {
			return err
		}
	}
	for i := range blocks {
		if err := p.add(&blocks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *pairs) call(id string) error {
	if p.open[id] {
		return fmt.Errorf("two calls have the ID %q", id)
	}
	p.open[id] = true
	p.request.Calls = append(p.request.Calls, id)
	return nil
}

func (p *pairs) result(id string) error {
	if !p.open[id] {
		return fmt.Errorf("the result of %q does not follow its call", id)
	}
	delete(p.open, id)
	p.request.Results++
	return nil
}

func (p *pairs) end() error {
	if p.reasoning {
		return errors.New("the history ends with a reasoning item")
	}
	for id := range p.open {
		return fmt.Errorf("the call %q has no result", id)
	}
	return nil
}
