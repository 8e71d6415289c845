// Package host runs LLM agents whose middlewares are untrusted WebAssembly
// modules, or native Go. It is what an embedder imports:
//
//	h, err := host.New(ctx, &host.Options{CacheDir: dir})
//	m, err := h.Load(ctx, "redact.wasm", host.Limits{})
//	a, err := h.NewAgent(ctx, &host.AgentOptions{
//		Model:       openai,
//		ModelName:   "gpt-4o-mini",
//		Middlewares: []host.Middleware{{Name: "redact", Module: m}},
//	})
//	for event, err := range a.Run(ctx, host.Input{Messages: messages}) {
//		…
//	}
//
// A module is compiled once and shared by all agents that load the same bytes;
// an entry of an agent is configured once and shared by all its runs; each run
// has instances of its own.
package host

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/module"
	"github.com/agent-runner/agent-runner/host/sandbox"
	"github.com/agent-runner/agent-runner/host/tool"
)

// What an embedder uses of the packages below.
type (
	Module = module.Module
	Limits = module.Limits
	Grants = module.Grants
	Native = chain.Native
	Input  = agent.Input
	Event  = abi.Event
	Error  = agent.Error
	Paused = agent.Paused

	// What errors.As finds in an Error, which says when.
	Stop        = chain.Stop
	Fault       = chain.Fault
	HookFailed  = chain.Failed
	Limited     = chain.Limited
	ModelError  = agent.ModelError
	Canceled    = agent.Canceled
	Blocked     = agent.Blocked
	TimedOut    = agent.TimedOut
	NotAdmitted = agent.NotAdmitted
	Expired     = agent.Expired
)

// What a fault of an entry may do to the run.
const (
	Fail = chain.Fail
	Skip = chain.Skip
)

// Options make a host. They are copied.
type Options struct {
	// CacheDir keeps compiled machine code from process to process; empty:
	// only while the host lives. Nobody else should be able to write there.
	CacheDir string
	// CompileChild compiles modules in processes of their own, which a module
	// that takes too much time or memory cannot harm, and bundles scripts there. A
	// program that sets it asks [sandbox.IsCompileChild] at the beginning of main,
	// and calls [CompileChildMain]. Nil: in this process, where scripts may not be
	// as deeply nested as bundled packages sometimes are.
	CompileChild *sandbox.ChildOptions
	// MemoryBytes is what all runs may use for their modules together. A run
	// takes the most that it can come to use when it begins, waits while others
	// hold it, and ends with a *sandbox.TooLargeError if there never is so much.
	// Default half of what the machine or container has.
	MemoryBytes int64
	// FaultDir keeps what a fault of a module depended on, for
	// [Host.Replay]; see [module.LoaderOptions]. Empty: nothing is kept.
	FaultDir string
	// Profile collects which functions of modules use their fuel, for authors; see
	// [sandbox.Options] for what that costs. Nil: nothing is collected.
	Profile *sandbox.Profile
	// Logger hears warnings about modules; nil: nobody.
	Logger *slog.Logger
}

// A Host loads modules and makes agents. It is safe for concurrent use.
type Host struct {
	loader *module.Loader
	closed atomic.Bool
}

// New returns a host. It fails if one of the directories cannot be used.
func New(ctx context.Context, o *Options) (*Host, error) {
	if o == nil {
		o = &Options{}
	}
	loader, err := module.NewLoader(ctx, &module.LoaderOptions{CacheDir: o.CacheDir, CompileChild: o.CompileChild,
		MemoryBytes: o.MemoryBytes, FaultDir: o.FaultDir, Profile: o.Profile, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Host{loader: loader}, nil
}

// Close ends the hooks that are running and frees all modules. It returns an
// error if ctx ends first.
func (h *Host) Close(ctx context.Context) error {
	h.closed.Store(true)
	return h.loader.Close(ctx)
}

// ErrClosed is why a host that was closed begins no run, and loads no module.
var ErrClosed = errors.New("the host is closed; its agents can be used no longer")

// Loader is what loads the host's modules, for what a Host has no method for.
func (h *Host) Loader() *module.Loader { return h.loader }

// Load loads a module from a .wasm file, a script (.ts, .mts, .js, .mjs), or an
// Extism manifest that names a module. Zero limits are the defaults. The error says
// what is wrong with the module and how to mend it, or is ErrClosed.
func (h *Host) Load(ctx context.Context, path string, limits Limits) (*Module, error) {
	m, err := h.loader.Load(ctx, path, limits)
	return m, orClosed(err)
}

// Replay does again what a bundle of a fault recorded, and says what was
// different. Bundles are read with [module.ReadBundle].
func (h *Host) Replay(ctx context.Context, b *module.Bundle) (*module.Replay, error) {
	return h.loader.Replay(ctx, b)
}

// LoadBytes loads a module from its bytes; name is for messages.
func (h *Host) LoadBytes(ctx context.Context, name string, wasm []byte, limits Limits) (*Module, error) {
	m, err := h.loader.LoadBytes(ctx, name, wasm, limits)
	return m, orClosed(err)
}

// orClosed is ErrClosed for what the sandbox of a closed host says.
func orClosed(err error) error {
	if errors.Is(err, sandbox.ErrClosed) {
		return ErrClosed
	}
	return err
}

// AgentOptions make an agent. They are copied.
type AgentOptions struct {
	Name        string // "agent" when empty
	Description string // what it is for: told to agents that may hand over to it
	Model       model.Model
	ModelName   string
	Params      abi.Params
	Models      []string                // that modules may choose beside ModelName; nil: any
	MayAsk      func(model string) bool // whether they may choose one of those; nil: each
	// MayPass says why modules may not pass a parameter of the model; nil: they may pass any.
	MayPass func(param string) error

	Instruction    string
	Tools          []tool.Tool
	ReturnDirectly []string // tools whose result ends the run

	// Middlewares are called in this order. A platform puts its own around a
	// tenant's: what passes Outer and Inner, no tenant's module gets past.
	Middlewares []Middleware
	Outer       []Middleware
	Inner       []Middleware
	chain.Options

	MaxSteps  int           // agent.DefaultMaxSteps when 0, at most agent.MaxStepsBound
	Limits    agent.Limits  // of model calls and tool calls
	Timeout   time.Duration // of a run; 0: none
	ToolLimit time.Duration // of a tool call; agent.DefaultCallLimit when 0
	Parallel  int           // tool calls at once; agent.DefaultParallel when 0
	// Memory limits the bytes that the host holds for a run and the sub-agents in it,
	// except for the memory of modules; agent.DefaultMemory, 64 MiB, when 0. A run that
	// does not fit ends with an [agent.MemoryError].
	Memory   int64
	NoStream bool // ask the model for whole answers
	// PauseLimit is how long a paused run waits for answers;
	// agent.DefaultPauseLimit when 0, for ever when negative.
	PauseLimit time.Duration

	// Journal keeps the agent's runs; nil: they end with the process.
	Journal *agent.JournalOptions
}

// An Agent runs. Many runs use it at once.
type Agent struct {
	*agent.Agent
	chain   *Chain
	closers []func() // of what was made for this agent alone
}

// NewAgent configures the middlewares and returns an agent of them.
func (h *Host) NewAgent(ctx context.Context, o *AgentOptions) (*Agent, error) {
	if o == nil {
		o = &AgentOptions{}
	}
	c, err := h.NewChain(ctx, &ChainOptions{Middlewares: o.Middlewares, Outer: o.Outer, Inner: o.Inner, Options: o.Options})
	if err != nil {
		return nil, err
	}
	a := &Agent{chain: c}
	options := &agent.Options{Name: o.Name, Description: o.Description, Model: o.Model, ModelName: o.ModelName, Params: o.Params, Models: o.Models, MayAsk: o.MayAsk, MayPass: o.MayPass,
		Instruction: o.Instruction, Tools: o.Tools, ReturnDirectly: o.ReturnDirectly, Chain: c.Chain,
		MaxSteps: o.MaxSteps, Limits: o.Limits, Timeout: o.Timeout, PauseLimit: o.PauseLimit, ToolLimit: o.ToolLimit, Parallel: o.Parallel, Memory: o.Memory, NoStream: o.NoStream,
		Journal: o.Journal}
	options.Admit = h.admit
	a.Agent, err = agent.New(options)
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// admit lets a run of a chain begin while the host is not closed, and there is
// memory for its modules.
func (h *Host) admit(ctx context.Context, c *chain.Chain, parallel int) (context.Context, *agent.Admission, error) {
	placed := placedIn(c)
	switch {
	case h.closed.Load():
		return ctx, nil, ErrClosed
	case len(placed) == 0:
		return ctx, &agent.Admission{Parallel: parallel, Release: func() {}}, nil
	}
	within, admission, err := h.reserve(ctx, placed, parallel)
	return within, admission, orClosed(err)
}

// Close releases the resources of the agent's entries once no run uses them, and stops the
// MCP servers of its file.
func (a *Agent) Close() {
	a.chain.Close()
	closeAll(a.closers)
}

// Run runs the agent and yields its events; see [agent.Agent.Run].
func (a *Agent) Run(ctx context.Context, in Input) iter.Seq2[Event, error] {
	return a.Agent.Run(ctx, in)
}

// Ask runs the agent on one message and returns its answer.
func (a *Agent) Ask(ctx context.Context, prompt string) (string, error) {
	for event, err := range a.Run(ctx, Input{Messages: []abi.Message{abi.User(prompt)}}) {
		switch {
		case err != nil:
			return "", err
		case event.Type == abi.EventRunFinished && event.Message == nil:
			return "", nil // the run ended at a limit that is not an error, without an answer
		case event.Type == abi.EventRunFinished:
			return event.Message.Content.String(), nil
		}
	}
	return "", errors.New("the run ended without an event that says so")
}
