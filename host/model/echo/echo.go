// Package echo is a model that works offline. It calls the tools that a prompt names, repeats
// other prompts, and fails on request, so that agents and middlewares can be tried without a key.
// Its answer depends only on the request:
//
//   - If the last user message names tools, the model calls all of them at once, in the order of
//     their names. A JSON object after a name is the call's arguments, as in
//     calculator {"expression": "6*7"}. Without one, the model derives the required arguments from
//     the tool's schema and the prompt. It makes at most 32 calls.
//   - After the results of tools, the model answers with the results.
//   - In all other cases, it answers with the last user message.
//   - [fail] in the last user message makes the request fail like the HTTP status 500. [fail 429]
//     names another status. [break] ends the answer with an error after its first half. [hang]
//     makes the request wait until it is canceled.
package echo

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

const (
	maxCalls  = 32 // calls in one answer
	maxChunks = 64 // approximately, of one text
)

// New returns the model. It is safe for concurrent use.
func New() model.Model { return echo{} }

type echo struct{}

// Generate implements [model.Model]. It streams the answer word by word.
func (echo) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := lastTurn(req.Messages)
	order := parseDirective(t.prompt)
	switch order.word {
	case "fail":
		return nil, failure(order.status)
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := t.answer(req)
	chunks := split(&m)
	if order.word == "break" {
		chunks = chunks[:len(chunks)/2]
	}
	if sink != nil {
		for _, c := range chunks {
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	if order.word == "break" {
		return nil, &model.Error{
			Code:      abi.CodeModel,
			Message:   "the model echo ended its answer early, as the prompt requested",
			Retryable: true,
		}
	}
	res := &abi.Response{Message: m, FinishReason: abi.FinishStop, Usage: usage(req, &m)}
	if len(m.ToolCalls) > 0 {
		res.FinishReason = abi.FinishToolCalls
	}
	return res, nil
}

// A turn is the last user message of a conversation and the messages after it.
type turn struct {
	prompt  string
	called  bool     // whether the model called tools after the prompt
	results []string // results of the last calls, in order
}

// lastTurn returns the last turn of a conversation.
func lastTurn(messages []abi.Message) (t turn) {
	start := 0
	for i := range messages {
		if messages[i].Role == abi.RoleUser {
			start = i
		}
	}
	for i := range messages[start:] {
		switch m := &messages[start+i]; m.Role {
		case abi.RoleUser:
			t.prompt = m.Content.String()
		case abi.RoleAssistant:
			t.called = t.called || len(m.ToolCalls) > 0
			t.results = nil
		case abi.RoleTool:
			t.results = append(t.results, m.Content.String())
		}
	}
	return t
}

// answer returns the model's message.
func (t *turn) answer(req *model.Request) abi.Message {
	if len(t.results) > 0 {
		return abi.Assistant(strings.Join(t.results, "\n"))
	}
	if !t.called {
		if calls := callsOf(t.prompt, req); len(calls) > 0 {
			return abi.Message{Role: abi.RoleAssistant, ToolCalls: calls}
		}
	}
	return abi.Assistant(t.prompt)
}

// callsOf returns calls of the tools that a prompt names, in the order of the names.
func callsOf(prompt string, req *model.Request) (calls []abi.ToolCall) {
	tools := make(map[string]*abi.Tool, len(req.Tools))
	for i := range req.Tools {
		tools[req.Tools[i].Name] = &req.Tools[i]
	}
	f := newFiller(prompt)
	for rest := prompt; rest != "" && len(calls) < maxCalls; {
		var name string
		name, rest = cutName(rest)
		t := tools[name]
		if t == nil {
			continue
		}
		arguments, n := cutObject(rest)
		if n == 0 {
			arguments = f.arguments(t.Parameters)
		}
		rest = rest[n:]
		// The number of messages makes the ID unique in a conversation that no middleware shortens.
		id := fmt.Sprintf("call_%d_%d", len(req.Messages), len(calls)+1)
		calls = append(calls, abi.NewToolCall(id, name, arguments))
	}
	return calls
}

// cutName returns the first word of a text that could be a tool's name, and the text after that word.
// Both are "" if there is no such word.
func cutName(text string) (name, rest string) {
	inName := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.", r)
	}
	start := strings.IndexFunc(text, inName)
	if start < 0 {
		return "", ""
	}
	text = text[start:]
	end := strings.IndexFunc(text, func(r rune) bool { return !inName(r) })
	if end < 0 {
		end = len(text)
	}
	return strings.TrimRight(text[:end], ".-"), text[end:]
}

// A directive is a request in a prompt to fail in a certain way.
type directive struct {
	word   string // fail, break or hang; "" without a directive
	status int    // the HTTP status of fail
}

var directives = regexp.MustCompile(`\[(fail|break|hang)(?: ([45][0-9][0-9]))?\]`)

// parseDirective returns the first directive in a prompt.
func parseDirective(prompt string) directive {
	m := directives.FindStringSubmatch(prompt)
	if m == nil {
		return directive{}
	}
	d := directive{word: m[1], status: http.StatusInternalServerError}
	if n, err := strconv.Atoi(m[2]); err == nil {
		d.status = n
	}
	return d
}

// failure returns the error for an HTTP status of an endpoint.
func failure(status int) error {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	return &model.Error{
		Code:      abi.CodeModel,
		Status:    status,
		Retryable: status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500,
		Message:   "the model echo answered " + text + ", as the prompt requested",
	}
}

// split returns the chunks of a message. It splits text at spaces, into single words or, if there
// are too many, into about maxChunks chunks.
func split(m *abi.Message) (chunks []abi.Chunk) {
	for _, c := range m.Chunks() {
		if c.Kind != abi.ChunkText {
			chunks = append(chunks, c)
			continue
		}
		size := len(c.Text) / maxChunks
		for rest := c.Text; rest != ""; {
			c.Text, rest = cutWords(rest, size)
			chunks = append(chunks, c)
		}
	}
	return chunks
}

// cutWords returns the words at the start of a text, more than size bytes or all of them, and the
// text after them.
func cutWords(text string, size int) (words, rest string) {
	if size < len(text) {
		if space := strings.IndexByte(text[size:], ' '); space >= 0 {
			end := size + space + 1
			return text[:end], text[end:]
		}
	}
	return text, ""
}

// usage estimates the tokens of a request and its answer: one for four bytes.
func usage(req *model.Request, m *abi.Message) *abi.Usage {
	u := &abi.Usage{CompletionTokens: tokens(m)}
	for i := range req.Messages {
		u.PromptTokens += tokens(&req.Messages[i])
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func tokens(m *abi.Message) int64 {
	n := len(m.Content.String())
	for _, c := range m.ToolCalls {
		n += len(c.Function.Name) + len(c.Function.Arguments)
	}
	return int64(n+3) / 4
}
