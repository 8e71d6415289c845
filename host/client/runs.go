package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Run is one of a tenant's.
type Run struct {
	ID           string      `json:"id"`
	Agent        string      `json:"agent"`
	Version      int64       `json:"version,omitempty"`
	Title        string      `json:"title,omitempty"`
	Status       string      `json:"status"` // queued, running, paused or finished
	FinishReason string      `json:"finish_reason,omitempty"`
	Step         int         `json:"step"`
	Usage        Tokens      `json:"usage"`
	Fuel         int64       `json:"fuel"`
	JournalBytes int64       `json:"journal_bytes"` // that it wrote to the journal
	Interrupts   []Interrupt `json:"interrupts,omitempty"`
	Output       string      `json:"output,omitempty"` // the answer's text, of a run that is asked for by its id
	Error        string      `json:"error,omitempty"`  // why it came to no answer
	LastEvent    int64       `json:"last_event"`       // the number of its last event
	Modules      []RunModule `json:"modules,omitempty"`
	Created      time.Time   `json:"created"`
	Updated      time.Time   `json:"updated"`
}

// Tokens are those that models read and wrote.
type Tokens struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// An Interrupt waits for an answer.
type Interrupt struct {
	ID      string          `json:"id"`
	Agent   string          `json:"agent,omitempty"`
	Entry   string          `json:"entry,omitempty"` // the module that asks; empty for a tool
	Hook    string          `json:"hook,omitempty"`  // gate_tool: the answer is approve, deny, or a decision
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Call    *ToolCall       `json:"call,omitempty"`   // that it is about
	Client  bool            `json:"client,omitempty"` // it is a tool of the client: the answer is its result
}

// A ToolCall is one that an interrupt is about.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// A RunModule is a module of a run.
type RunModule struct {
	Entry  string `json:"entry"`
	Digest string `json:"digest,omitempty"`
}

// A StartRun begins a run, or goes on with one that waits.
type StartRun struct {
	Agent      string                     `json:"agent,omitempty"`
	Version    int64                      `json:"version,omitempty"` // the newest when 0
	Input      string                     `json:"input,omitempty"`   // what the user says
	Messages   []json.RawMessage          `json:"messages,omitempty"`
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	Run        string                     `json:"run,omitempty"` // the run that goes on
	Answers    map[string]json.RawMessage `json:"answers,omitempty"`
	Disconnect string                     `json:"disconnect,omitempty"` // continue or cancel
}

// StartRun begins a run, or goes on with one, and returns at once. The key names the
// request: the same again, after an answer that did not arrive, begins no other run; another
// request with the key is refused.
// One is made up if it is empty. A server that breaks off is asked once more.
func (c *Client) StartRun(ctx context.Context, s *StartRun, key string) (*Run, error) {
	if key == "" {
		key = rand.Text()
	}
	r := &request{method: http.MethodPost, path: "/v1/runs", in: s, header: http.Header{"Idempotency-Key": {key}}}
	out := &Run{}
	err := c.call(ctx, r, out)
	var gone *UnreachableError
	if errors.As(err, &gone) && s.Run == "" {
		err = c.call(ctx, r, out)
	}
	return out, err
}

// A RunFilter selects runs. Its zero value selects all.
type RunFilter struct {
	Agent  string
	Status string // running, paused or finished
}

// Runs returns a page of the runs that a filter selects, the newest first, and the next
// page's cursor.
func (c *Client) Runs(ctx context.Context, f RunFilter, p Page) (runs []*Run, next string, err error) {
	q := p.query()
	for name, value := range map[string]string{"agent": f.Agent, "status": f.Status} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out struct {
		Runs []*Run `json:"runs"`
		Next string `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/runs", q, &out)
	return out.Runs, out.Next, err
}

// Run returns one.
func (c *Client) Run(ctx context.Context, id string) (*Run, error) {
	out := &Run{}
	return out, c.get(ctx, path("/v1/runs/%s", id), nil, out)
}

// CancelRun ends a run soon.
func (c *Client) CancelRun(ctx context.Context, id string) (*Run, error) {
	out := &Run{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/runs/%s/cancel", id)}, out)
}

// DeleteRun forgets a run that has ended or waits.
func (c *Client) DeleteRun(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/runs/%s", id))
}

// A RunHistory is what a run did, phase by phase.
type RunHistory struct {
	Input    json.RawMessage `json:"input"`    // the messages that it began with
	Messages json.RawMessage `json:"messages"` // the conversation as it is now
	Phases   json.RawMessage `json:"phases"`
	Answered json.RawMessage `json:"answered"` // answers to interrupts
}

// RunHistory returns what a run did.
func (c *Client) RunHistory(ctx context.Context, id string) (*RunHistory, error) {
	out := &RunHistory{}
	return out, c.get(ctx, path("/v1/runs/%s/history", id), nil, out)
}

// Events returns events of a run that there are, from behind a number on, and
// whether there are more behind them.
func (c *Client) Events(ctx context.Context, id string, after int64) (events []abi.Event, more bool, err error) {
	var out struct {
		Events []json.RawMessage `json:"events"`
		More   bool              `json:"more"`
	}
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if err := c.get(ctx, path("/v1/runs/%s/events", id), q, &out); err != nil {
		return nil, false, err
	}
	events = make([]abi.Event, len(out.Events))
	for i, b := range out.Events {
		if events[i], err = decodeEvent(b); err != nil {
			return nil, false, err
		}
	}
	return events, out.More, nil
}

func decodeEvent(b []byte) (e abi.Event, err error) {
	if _, err = abijson.Decode(b, &e); err != nil {
		err = fmt.Errorf("an event of the run cannot be read; the server may be of another version: %w", err)
	}
	return e, err
}
