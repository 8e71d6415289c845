// Package middlewaretest runs middlewares in a plain go test. A [Host] replaces agent-runner: it
// calls hooks with inputs that are encoded to JSON as for a WebAssembly module, stores messages and
// run-local values between hooks, and applies the hooks' answers.
//
// It does not run an agent's loop: the test decides which hook to call and with which
// input.
package middlewaretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Host runs one module. A test may set and read its fields between hooks. It is not
// safe for concurrent use.
type Host struct {
	// Run and Entry are part of every input. New sets them to test values.
	Run   abi.Run
	Entry string

	// Model answers when a model wrapper calls next. If nil, next fails.
	Model func(call ModelCall) (*abi.Response, error)
	// Tool answers when a tool wrapper calls next. If nil, next fails.
	Tool func(call abi.Call) (*abi.Result, error)

	// Pieces is the number of characters per chunk when a wrapper reads an answer as a
	// stream. 0 means a single chunk.
	Pieces int

	// OwnModel answers the module's own model calls, and OwnTool its calls of the agent's
	// tools. If nil, the calls are denied, as without a grant.
	OwnModel func(call ModelCall) (*abi.Response, error)
	OwnTool  func(name, arguments string) (*abi.Result, error)
	// HTTP answers the module's HTTP requests, in which the placeholders of secrets are
	// not replaced. If nil, they are denied, as without a grant.
	HTTP func(request abi.HTTPRequest) (*abi.HTTPResponse, error)

	// NoStore makes the module's calls of the store fail, as without the grant "store".
	NoStore bool

	// Sent holds the chunks that the module sent in its last hook.
	Sent []abi.Chunk
	// Events holds the custom events that the module emitted, and Logs the lines that it logged.
	Events []contract.Custom
	Logs   []Log
	// Pulled counts the messages that the module fetched.
	Pulled int

	module    *middleware.Module
	config    abi.JSON
	lists     [2]list
	revisions int64
	ids       int
	locals    locals
	stored    stored
	request   *abi.Request // the request of the running wrap_model
	call      *abi.Call    // the call of the running wrap_tool_call
	stream    *stream      // the stream that a wrapper reads
}

// A ModelCall is a model call that a wrapper passed on or that the module made itself: the
// changed request, and the changes alone.
type ModelCall struct {
	Messages []abi.Message
	Tools    []abi.Tool
	Model    string
	Params   abi.Params
	Patch    abi.RequestPatch
}

// A Log is a line that the module logged. Level is a level of the import "log".
type Log struct {
	Level int
	Text  string
}

// New returns a host for a module of these middlewares, without a configuration. It panics for the
// reasons that [middleware.NewModule] lists. If the module needs a configuration, call
// [Host.Configure] next and check its error.
func New(o middleware.Options, middlewares ...middleware.Middleware) *Host {
	return newHost(middleware.NewModule(o, middlewares...))
}

// NewDeclared is like New for a declared module.
func NewDeclared(d *middleware.Declaration) *Host { return newHost(d.Module()) }

func newHost(m *middleware.Module) *Host {
	h := &Host{
		Run:    abi.Run{ID: "run-1", Agent: "test", Step: 1, MaxSteps: 20, NowMS: 1_700_000_000_000},
		Entry:  "test",
		module: m,
		locals: locals{values: map[string]contract.LocalValue{}},
	}
	if d, err := h.Describe(); err == nil && d.Name != "" {
		h.Entry = d.Name
	}
	for i := range h.lists {
		h.lists[i].id = i
	}
	_ = h.Configure(nil)
	return h
}

// Configure configures the module with any value that can be encoded as JSON. It returns the error of the hook
// configure, for example for an unknown key.
func (h *Host) Configure(config any) error {
	raw, err := abijson.Marshal(config)
	if err != nil {
		return err
	}
	h.config = raw
	return h.Wipe()
}

// Wipe calls configure again, which resets the module's memory, as the host may do between two hooks. It returns the
// error of configure.
func (h *Host) Wipe() error {
	_, err := call[contract.ConfigureAnswer](h, contract.HookConfigure,
		&contract.ConfigureInput{Entry: h.Entry, Config: h.config})
	return err
}

// Describe returns the module's description.
func (h *Host) Describe() (abi.Description, error) {
	return call[abi.Description](h, contract.HookDescribe, &struct{}{})
}

// Has reports whether the module has a hook.
func (h *Host) Has(hook abi.Hook) bool {
	d, err := h.Describe()
	return err == nil && slices.Contains(d.Hooks, hook)
}

// SetMessages sets the run's messages. Messages without an ID get one.
func (h *Host) SetMessages(messages ...abi.Message) { h.set(&h.lists[abi.ListState], messages) }

// Messages returns the run's messages with the changes of all hooks so far.
func (h *Host) Messages() []abi.Message { return slices.Clone(h.lists[abi.ListState].now()) }

// Local decodes a run-local value into v, and reports whether it exists. It returns an error if the value cannot be
// decoded.
func (h *Host) Local(key string, v any) (bool, error) {
	value, ok := h.locals.values[key]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(value.Value, v)
}

// Call calls a hook with a raw input and returns its output. If ok is false, the output is an error
// object.
func (h *Host) Call(hook abi.Hook, input []byte) (output []byte, ok bool) {
	h.locals.begin()
	h.Sent, h.stream = nil, nil
	output, ok = h.module.Call(&imports{h: h, hook: hook}, hook, input)
	h.locals.end(ok)
	return output, ok
}

// call calls a hook with an input and decodes its answer. If the hook fails, the error is an
// *abi.Error. call also fails if the module does not have the hook, or if the answer has unknown
// keys.
func call[A any](h *Host, hook abi.Hook, input any) (A, error) {
	var answer A
	switch hook {
	case contract.HookDescribe, contract.HookConfigure:
	default:
		if !h.Has(hook) {
			return answer, fmt.Errorf("the module has no hook %s: no middleware of it has the method", hook)
		}
	}
	if c, ok := input.(interface{ Envelope() *abi.Common }); ok {
		*c.Envelope() = abi.Common{Run: h.Run, Entry: h.Entry}
	}
	b, err := abijson.Marshal(input)
	if err != nil {
		return answer, fmt.Errorf("encode the input of %s: %w", hook, err)
	}
	output, ok := h.Call(hook, b)
	if !ok {
		failed := &abi.Error{}
		if _, err := abijson.Decode(output, failed); err != nil {
			return answer, fmt.Errorf("%s failed, and its error object %q is none: %w", hook, output, err)
		}
		return answer, failed
	}
	if len(output) == 0 {
		return answer, nil
	}
	unknown, err := abijson.Decode(output, &answer)
	if err == nil && len(unknown) > 0 {
		err = errors.New("unknown keys " + strings.Join(unknown, ", "))
	}
	if err != nil {
		return answer, fmt.Errorf("the answer of %s: %w", hook, err)
	}
	return answer, nil
}
