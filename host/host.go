// Package host runs LLM agents whose middlewares are untrusted WebAssembly
// modules, or native Go. Programs that embed agent-runner import it:
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
// A module is compiled once and shared by all agents that load the same bytes. An entry of an
// agent is configured once and shared by all its runs. Each run has its own instances.
package host

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Values of Middleware.OnFault: Fail ends the run after a fault of the middleware, and Skip continues
// without it.
const (
	Fail = hook.Fail
	Skip = hook.Skip
)

// Options configure a host. They are copied.
type Options struct {
	// CacheDir caches compiled machine code across processes. If it is empty, code is cached
	// only while the host is open. Other users must not be able to write to it.
	CacheDir string
	// CompileChild, if not nil, compiles modules and bundles scripts in child processes, so that
	// a module that takes too much time or memory does not affect this process. A program that
	// sets it must call [CompileChildMain] at the start of main. If CompileChild is nil, this process
	// compiles, and rejects scripts with deeply nested brackets, as some bundled packages have.
	CompileChild *CompileChild
	// MemoryBytes limits the memory of the modules of all runs. A run reserves its maximum
	// when it starts, waits while other runs hold the memory, and fails with a
	// *sandbox.TooLargeError if it can never fit. The default is half the memory of the
	// machine or container.
	MemoryBytes int64
	// FaultDir, if not empty, receives fault bundles for the command "agent-runner module
	// replay"; see [module.LoaderOptions].
	FaultDir string
	// Profile, if not nil, collects the fuel used by each function of modules. See
	// [sandbox.Options] for the cost.
	Profile *Profile
	// Logger, if not nil, receives warnings about modules.
	Logger *slog.Logger
}

// A Host loads modules and creates agents. It is safe for concurrent use.
type Host struct {
	loader *module.Loader
	closed atomic.Bool
}

// New returns a host. A nil o is a zero Options. New fails if Options.CacheDir or Options.FaultDir is
// unusable.
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

// Close stops running hooks and releases all modules. If ctx is done first, Close returns an error.
func (h *Host) Close(ctx context.Context) error {
	h.closed.Store(true)
	return h.loader.Close(ctx)
}

// ErrClosed is returned when a closed host starts a run or loads a module.
var ErrClosed = errors.New("the host is closed; its agents can be used no longer")

// Loader returns the host's loader of modules. The agent-runner command uses it to bundle scripts
// and to replay fault bundles; adapters use it to reserve memory for runs.
func (h *Host) Loader() *module.Loader { return h.loader }

// Load loads a module from a .wasm file, a script (.ts, .mts, .js, .mjs), or an Extism manifest
// that names a module. Zero limits select the defaults. The error is [ErrClosed] if the host is
// closed. The error for an invalid module says what is wrong and how to fix it.
func (h *Host) Load(ctx context.Context, path string, limits Limits) (*Module, error) {
	m, err := h.loader.Load(ctx, path, limits)
	return m, orClosed(err)
}

// LoadBytes loads a module from its bytes. name is its name in messages. Errors are as for
// [Host.Load].
func (h *Host) LoadBytes(ctx context.Context, name string, wasm []byte, limits Limits) (*Module, error) {
	m, err := h.loader.LoadBytes(ctx, name, wasm, limits)
	return m, orClosed(err)
}

// orClosed converts the sandbox's error for a closed host to ErrClosed.
func orClosed(err error) error {
	if errors.Is(err, sandbox.ErrClosed) {
		return ErrClosed
	}
	return err
}

// AgentOptions configure an agent. They are copied.
type AgentOptions struct {
	Name        string // the default is "agent"
	Description string // the agent's purpose, for agents that can transfer to it
	Model       model.Model
	ModelName   string
	Params      abi.Params
	Models      []string                // models that modules may choose in addition to ModelName; nil for any
	AllowModel  func(model string) bool // must also allow a model that modules choose; nil for all
	// CheckParam returns an error if modules may not set a parameter of the model. By default,
	// they may set any.
	CheckParam func(param string) error

	Instruction    string
	Tools          []tool.Tool
	ReturnDirectly []string // tools whose result ends the run

	// Middlewares are called in this order. A platform sets Outer and Inner around a tenant's
	// middlewares, which cannot bypass them.
	Middlewares []Middleware
	Outer       []Middleware
	Inner       []Middleware
	// ContinueOnError runs the rest of a pipeline after a hook that failed. The first
	// error is reported at the end.
	ContinueOnError bool
	// ContinueOnResponse runs the rest of a before pipeline after a hook that answered. The last
	// answer is used, unless a hook fails.
	ContinueOnResponse bool
	// Values stores the durable values of entries, for Tenant. If nil, they are unavailable.
	Values hook.Values
	Tenant string
	// HTTP sends requests of middlewares. If nil, they fail.
	HTTP hook.HTTP
	// Tracer, if not nil, receives the operations of the run.
	Tracer Tracer

	MaxSteps    int           // at most agent.MaxStepsBound; the default is agent.DefaultMaxSteps
	Limits      agent.Limits  // limits for model calls and tool calls
	Timeout     time.Duration // time limit of a run; 0 for none
	ToolTimeout time.Duration // timeout of a tool call; the default is agent.DefaultToolTimeout
	Parallel    int           // concurrent tool calls; the default is agent.DefaultParallel
	// Memory limits the bytes that the host holds for a run and the sub-agents in it,
	// except for the memory of modules. The default is agent.DefaultMemory, 64 MiB. A run
	// that exceeds the limit ends with an [agent.MemoryError].
	Memory   int64
	NoStream bool // do not stream the model's answers
	// KeepOrphanResults keeps tool results without a call, which model APIs reject, as messages of
	// the user. By default they are removed. The model may then trust text of tools like the user's.
	KeepOrphanResults bool
	// PauseTimeout is the maximum time that a paused run waits for answers. The default is
	// agent.DefaultPauseTimeout. A negative value means no limit.
	PauseTimeout time.Duration

	// Journal, if not nil, journals the agent's runs. Without a journal, runs end with the process.
	Journal *JournalOptions
}

// An Agent runs conversations. Its methods are safe for concurrent use.
type Agent struct {
	*agent.Agent
	chain   *Chain
	closers []func() // release resources of this agent
}

// NewAgent configures the middlewares and returns an agent. The caller must close the agent.
func (h *Host) NewAgent(ctx context.Context, o *AgentOptions) (*Agent, error) {
	if o == nil {
		o = &AgentOptions{}
	}
	c, err := h.NewChain(ctx, &ChainOptions{
		Middlewares:        o.Middlewares,
		Outer:              o.Outer,
		Inner:              o.Inner,
		ContinueOnError:    o.ContinueOnError,
		ContinueOnResponse: o.ContinueOnResponse,
		Values:             o.Values,
		Tenant:             o.Tenant,
		HTTP:               o.HTTP,
		Tracer:             o.Tracer,
	})
	if err != nil {
		return nil, err
	}
	a := &Agent{chain: c}
	options := &agent.Options{
		Name:           o.Name,
		Description:    o.Description,
		Model:          o.Model,
		ModelName:      o.ModelName,
		Params:         o.Params,
		Models:         o.Models,
		AllowModel:     o.AllowModel,
		CheckParam:     o.CheckParam,
		Instruction:    o.Instruction,
		Tools:          o.Tools,
		ReturnDirectly: o.ReturnDirectly,
		Chain:          c.Chain,
		MaxSteps:       o.MaxSteps,
		Limits:         o.Limits,
		Timeout:        o.Timeout,
		PauseTimeout:   o.PauseTimeout,
		ToolTimeout:    o.ToolTimeout,
		Parallel:       o.Parallel,
		Memory:         o.Memory,
		NoStream:       o.NoStream,
		Journal:        o.Journal,

		KeepOrphanResults: o.KeepOrphanResults,
	}
	options.Admit = h.admit
	a.Agent, err = agent.New(options)
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// admit waits until memory for the modules of c is available, and admits the run. The admission
// allows at most parallel concurrent tool calls, or fewer if memory is short. admit returns
// ErrClosed if the host is closed.
func (h *Host) admit(ctx context.Context, c *chain.Chain, parallel int) (context.Context, *agent.Admission, error) {
	placed := module.PlacedIn(c.Entries())
	switch {
	case h.closed.Load():
		return ctx, nil, ErrClosed
	case len(placed) == 0:
		return ctx, &agent.Admission{Parallel: parallel, Release: func() {}}, nil
	}
	within, r, err := h.loader.Reserve(ctx, placed, parallel)
	if err != nil {
		return ctx, nil, orClosed(err)
	}
	return within, &agent.Admission{Parallel: r.Parallel, Release: r.Release, Room: r.OwnCalls.Take}, nil
}

// Close releases the resources of the agent's entries once no run uses them, and stops the
// MCP servers of its file.
func (a *Agent) Close() {
	a.chain.Close()
	closeAll(a.closers)
}

// Run runs the agent and yields its events; see [agent.Agent.Run].
func (a *Agent) Run(ctx context.Context, in Input) iter.Seq2[abi.Event, error] {
	return a.Agent.Run(ctx, in)
}

// Ask runs the agent on one message and returns its answer. The answer is empty if the run
// ended at a limit that is not an error.
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
	return "", errors.New("the run ended without the event run_finished")
}
