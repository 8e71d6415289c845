// Package middlewaretest runs middlewares in a plain go test. A [Host] stands
// for agent-runner: it calls hooks with inputs that go through the same JSON as
// in a WebAssembly module, keeps messages and run-local values between them,
// and applies what hooks answer.
//
// What it does not do is an agent's loop: a test says which hook is called,
// and with what.
package middlewaretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A Host runs one module. Its fields may be set and read between hooks. It is
// not safe for concurrent use.
type Host struct {
	// Run and Entry stand in every input. New fills them with something.
	Run   abi.Run
	Entry string

	// Model answers when a model wrapper calls next; without it, next fails.
	Model func(call ModelCall) (*abi.Response, error)
	// Tool answers when a tool wrapper calls next; without it, next fails.
	Tool func(call abi.Call) (*abi.Result, error)

	// Pieces is how many characters a chunk has when a wrapper reads an answer as
	// it comes; 0: it comes in one piece.
	Pieces int

	// OwnModel answers the module's own model calls, and OwnTool its calls of the
	// agent's tools; without them they are denied, as without a grant.
	OwnModel func(call ModelCall) (*abi.Response, error)
	OwnTool  func(name, arguments string) (*abi.Result, error)
	// HTTP answers the module's requests, in which secrets stand by their names;
	// without it they are denied, as without a grant.
	HTTP func(request abi.HTTPRequest) (*abi.HTTPResponse, error)

	// NoStore takes the grant store from the module.
	NoStore bool

	// Sent are the chunks that the module sent in its last hook.
	Sent []abi.Chunk
	// Events are what the module emitted, and Logs what it logged.
	Events []abi.Custom
	Logs   []Log
	// Pulled counts the messages that the module asked for.
	Pulled int

	module    *middleware.Module
	config    abi.JSON
	lists     [2]list
	revisions int64
	ids       int
	locals    locals
	stored    stored
	request   *abi.Request // of the wrap_model that runs
	call      *abi.Call    // of the wrap_tool_call that runs
	stream    *stream      // that a wrapper reads
}

// A ModelCall is a model call that a wrapper passed on: the request with what
// the wrapper changed, and the changes alone.
type ModelCall struct {
	Messages []abi.Message
	Tools    []abi.Tool
	Model    string
	Params   abi.Params
	Patch    abi.RequestPatch
}

// A Log is a line that the module logged; Level is a number of the log import.
type Log struct {
	Level int
	Text  string
}

// New makes a host for a module of these middlewares, and configures it with
// nothing. It panics where middleware.Register would, and where a
// middleware cannot be without a configuration use [Host.Configure] next: its
// error is the one that counts.
func New(o middleware.Options, middlewares ...middleware.Middleware) *Host {
	return newHost(middleware.NewModule(o, middlewares...))
}

// NewDeclared is New for a module that was declared.
func NewDeclared(d *middleware.Declaration) *Host { return newHost(d.Module()) }

func newHost(m *middleware.Module) *Host {
	h := &Host{
		Run:    abi.Run{ID: "run-1", Agent: "test", Step: 1, MaxSteps: 20, NowMS: 1_700_000_000_000},
		Entry:  "test",
		module: m,
		locals: locals{values: map[string]abi.LocalValue{}},
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

// Configure gives the module a configuration: anything that encodes as JSON.
func (h *Host) Configure(config any) error {
	raw, err := abi.Marshal(config)
	if err != nil {
		return err
	}
	h.config = raw
	return h.Wipe()
}

// Wipe does what the host may do between two hooks: the module's memory is
// gone, and an instance begins as configure leaves it.
func (h *Host) Wipe() error {
	_, err := call[abi.ConfigureAnswer](h, abi.HookConfigure, &abi.ConfigureInput{Entry: h.Entry, Config: h.config})
	return err
}

// Describe returns what the module says of itself.
func (h *Host) Describe() (abi.Description, error) {
	return call[abi.Description](h, abi.HookDescribe, &struct{}{})
}

// Has reports whether the module has a hook.
func (h *Host) Has(hook abi.Hook) bool {
	d, err := h.Describe()
	return err == nil && slices.Contains(d.Hooks, hook)
}

// SetMessages makes these the run's messages. Those without an id get one.
func (h *Host) SetMessages(messages ...abi.Message) { h.set(&h.lists[abi.ListState], messages) }

// Messages returns the run's messages, as the hooks so far left them.
func (h *Host) Messages() []abi.Message { return slices.Clone(h.lists[abi.ListState].now()) }

// Local decodes a run-local value, and reports whether it is there.
func (h *Host) Local(key string, v any) (bool, error) {
	value, ok := h.locals.values[key]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(value.Value, v)
}

// Call calls a hook with an input as it stands, and returns its output.
func (h *Host) Call(hook abi.Hook, input []byte) (output []byte, ok bool) {
	h.locals.begin()
	h.Sent, h.stream = nil, nil
	output, ok = h.module.Call(&imports{h: h, hook: hook}, hook, input)
	h.locals.end(ok)
	return output, ok
}

// call calls a hook with an input and decodes its answer. A hook that failed
// is an *abi.Error.
func call[A any](h *Host, hook abi.Hook, input any) (A, error) {
	var answer A
	switch hook {
	case abi.HookDescribe, abi.HookConfigure:
	default:
		if !h.Has(hook) {
			return answer, fmt.Errorf("the module has no hook %s: no middleware of it has the method", hook)
		}
	}
	if c, ok := input.(interface{ Envelope() *abi.Common }); ok {
		*c.Envelope() = abi.Common{Run: h.Run, Entry: h.Entry}
	}
	b, err := abi.Marshal(input)
	if err != nil {
		return answer, fmt.Errorf("encode the input of %s: %w", hook, err)
	}
	output, ok := h.Call(hook, b)
	if !ok {
		failed := &abi.Error{}
		if _, err := abi.Decode(output, failed); err != nil {
			return answer, fmt.Errorf("%s failed, and its error object %q is none: %w", hook, output, err)
		}
		return answer, failed
	}
	if len(output) == 0 {
		return answer, nil
	}
	unknown, err := abi.Decode(output, &answer)
	if err == nil && len(unknown) > 0 {
		err = errors.New("unknown keys " + strings.Join(unknown, ", "))
	}
	if err != nil {
		return answer, fmt.Errorf("the answer of %s: %w", hook, err)
	}
	return answer, nil
}
