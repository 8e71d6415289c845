// Package agent runs the loop of an agent. The loop calls the model and the tools, and a chain of
// middlewares observes and changes the messages, calls and results. [Agent.Run] takes an [Input]
// and yields events and the final error. The package uses middlewares only through the chain's
// interfaces.
//
// abi/README.md has a diagram of a run.
//
// The state of a run is a [runlog.State], which can be encoded as JSON and contains everything that
// a resumed run needs.
package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/agent/safetool"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxStepsBound is the largest valid value of Options.MaxSteps.
const MaxStepsBound = 100_000

// Defaults of Options.
const (
	DefaultMaxSteps    = 20
	DefaultParallel    = 8
	DefaultToolTimeout = 2 * time.Minute
	// DefaultPauseTimeout is a week.
	DefaultPauseTimeout = 7 * 24 * time.Hour
)

// Options configure an agent.
type Options struct {
	Name        string // the default is "agent"
	Description string // the agent's purpose, for agents that may transfer to it
	Model       model.Model
	// ModelName and Params are part of each model request. Modules may change them for a single
	// call.
	ModelName string
	Params    abi.Params
	// Models lists the models that modules may choose in addition to ModelName. If it is nil, they
	// may choose any model. AllowModel, if not nil, must also return true for a chosen model.
	Models     []string
	AllowModel func(model string) bool
	// CheckParam returns an error if modules must not set a parameter. If it is nil, they may set
	// any parameter. It is not called for a parameter of Params that is unchanged.
	CheckParam func(param string) error

	Instruction string
	Tools       []tool.Tool
	// ReturnDirectly lists the tools whose result ends the run and is the run's answer.
	ReturnDirectly []string
	// Chain has the agent's middlewares; optional.
	Chain *chain.Chain

	MaxSteps    int           // maximum number of steps; the default is DefaultMaxSteps; at most MaxStepsBound
	Limits      Limits        // limits on calls and journal bytes of a run
	Timeout     time.Duration // time limit of a run; 0 for none
	ToolTimeout time.Duration // time limit of one tool call; the default is DefaultToolTimeout
	Parallel    int           // maximum number of concurrent tool calls; the default is DefaultParallel
	NoStream    bool          // request whole responses from the model instead of streams
	// KeepOrphanResults keeps tool results without a call as messages of the user. By default they
	// are removed, because model APIs reject them.
	KeepOrphanResults bool
	// Memory is the maximum number of bytes that the host stores for a run and the runs inside it:
	// the conversation, the answers of hooks, model and tools in a phase, run-local values, and at
	// most DefaultPending bytes of pending events and changes. Hooks that emit events wait while
	// too many bytes are pending. A run that needs more than Memory ends with a [*MemoryError]. The
	// default is DefaultMemory.
	Memory int64
	// PauseTimeout is the time for which a paused run can be resumed. A run that is resumed later
	// ends with an [*ExpiredError]. The default is DefaultPauseTimeout. A negative value means no
	// limit.
	PauseTimeout time.Duration

	// Journal stores the agent's runs. Without it, a run is lost when its process ends.
	Journal *journal.Options

	// Admit is called with the chain and Parallel before the agent starts or resumes a run, and
	// before a run is transferred to the agent. It may block. The run's Timeout does not include
	// the time before the start. The run continues with the returned context. If Admit returns an
	// error, the run fails with an [*AdmissionError] that wraps the error, unless ctx is done.
	// Optional.
	Admit func(ctx context.Context, c *chain.Chain, parallel int) (context.Context, *Admission, error)
}

// An Admission has the resources that Options.Admit granted to a run.
type Admission struct {
	Parallel int    // maximum number of concurrent tool calls
	Release  func() // called when the run has ended or paused
	// Room reserves resources for a call that a middleware makes for itself; see [chain.Nester]. If
	// it is nil, such calls reserve nothing.
	Room func(ctx context.Context, of hook.Own) (release func(), err error)
}

// An Agent executes runs. It is safe for concurrent use. It is immutable, except for
// [Agent.AllowTransfer] before the first run.
type Agent struct {
	Options
	tools     map[string]tool.Tool
	transfers []*Agent
	with      []string // names of the entries that [Agent.With] added

	requested *Requested // what [WithRequest] added; nil if nothing
}

// New returns an agent. It returns an error if the options are invalid.
func New(o *Options) (*Agent, error) {
	a := &Agent{Options: *o, tools: map[string]tool.Tool{}}
	a.Journal = journal.WithDefaults(o.Journal)
	var err error
	if a.Model == nil {
		return nil, errors.New("an agent needs a model")
	}
	a.Tools, a.ReturnDirectly, a.Models = slices.Clone(o.Tools), slices.Clone(o.ReturnDirectly), slices.Clone(o.Models)
	var declared []abi.Tool
	for _, t := range a.Tools {
		if err := a.addTool(t); err != nil {
			return nil, err
		}
		declared = append(declared, t.Declaration())
	}
	for _, name := range a.ReturnDirectly {
		if a.tools[name] == nil && a.Chain == nil {
			return nil, errors.New(noReturnDirectly(name, declared))
		}
	}
	if a.Chain == nil {
		a.Chain, _ = chain.New()
	}
	if a.Name == "" {
		a.Name = "agent"
	}
	if a.MaxSteps > MaxStepsBound {
		return nil, fmt.Errorf("an agent may have %d steps at most, not %d; lower MaxSteps", MaxStepsBound, a.MaxSteps)
	}
	if a.MaxSteps <= 0 {
		a.MaxSteps = DefaultMaxSteps
	}
	if a.Parallel <= 0 {
		a.Parallel = DefaultParallel
	}
	if a.Memory <= 0 {
		a.Memory = DefaultMemory
	}
	if a.PauseTimeout == 0 {
		a.PauseTimeout = DefaultPauseTimeout
	}
	if a.Limits, err = o.Limits.complete(); err != nil {
		return nil, err
	}
	return a, nil
}

// addTool adds a tool that the model may call. a.ToolTimeout limits the calls, unless the tool is
// an agent. addTool returns an error if the declaration is invalid or another tool has the same
// name.
func (a *Agent) addTool(t tool.Tool) error {
	d := t.Declaration()
	if err := contract.CheckTool(&d); err != nil {
		return err
	}
	if a.tools[d.Name] != nil {
		return fmt.Errorf("two tools are named %q; remove one of them", d.Name)
	}
	if inner, ok := t.(*agentTool); ok { // a run has limits of its own
		a.tools[d.Name] = inner
	} else {
		a.tools[d.Name] = safetool.New(t, &safetool.Options{Timeout: a.ToolTimeout})
	}
	return nil
}

// An Input has the conversation and the options of a new run.
type Input struct {
	// Messages is the conversation so far. The last message is usually the user's.
	Messages []abi.Message
	// Chain contains middlewares of this run only; see [Agent.With]. Optional.
	Chain *chain.Chain
	// RunID is the ID of the run. The default is a random ID.
	RunID string
	// Metadata is the run's metadata, which modules can read.
	Metadata abi.Params
	// Parent is the ID of the run that called this one as a tool, or "".
	Parent string
	// RequestDigest identifies the request that starts the run. It is stored with the run. A caller
	// can recognize a repeated request by it, even if modules changed the messages. Optional.
	RequestDigest string
	// Thread is the thread that the run continues, or nil. Messages must begin with the thread's
	// messages, whose number is in Thread.
	Thread *journal.ThreadStart
	// EndUser is the end user for whom the run is. Optional.
	EndUser journal.EndUser
}

// Run executes a run and yields its events as they happen. The last event is run_finished, with an
// [*Error] if the run failed, or run_paused, with a [*PausedError], if the run waits for answers.
// If the journal fails or the process shuts down, the last event has no type, and the error is a
// [*journal.Error]. If the caller stops iterating, the run is canceled. A slow caller slows the run
// down.
func (a *Agent) Run(ctx context.Context, in Input) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		events(stream(ctx, newRun(a, in)))(yield)
	}
}

// deepen grows the stack of a new goroutine to the size that a run with modules needs. Otherwise
// the stack would grow in steps, and each step would copy it. With n == 0, deepen touches no
// memory.
//
//go:noinline
func deepen(n int) byte {
	if n == 0 {
		return 0
	}
	var room [16 << 10]byte
	room[n] = 1
	return room[n/2]
}

// events returns the events of a stream without their encodings.
func events(stream iter.Seq2[delivery.Event, error]) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		for e, err := range stream {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}

// stream runs r, and yields its events and its error as [Agent.Run] does.
func stream(ctx context.Context, r *run) iter.Seq2[delivery.Event, error] {
	return func(yield func(delivery.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			deepen(0)
			r.execute(ctx)
		}()
		gone := false
		for {
			var e delivery.Event
			if !r.events.Take(&e) {
				break
			}
			r.memory.Release(&e)
			if gone {
				continue
			}
			var err error
			switch {
			case e.Event.Type == abi.EventRunFinished && r.err != nil:
				err = r.err
			case e.Event.Type == abi.EventRunPaused:
				err = r.paused
			}
			if !yield(e, err) {
				gone = true
				r.client.gone.Store(true)
				cancel()
			}
		}
		if r.lost != nil && !gone {
			yield(delivery.Event{}, r.lost)
		}
	}
}

// With returns a copy of the agent with additional middlewares, such as those of a tenant or a
// request. In each ring, the agent's own middlewares come first; see [chain.Chain.Join]. The
// additional middlewares do not apply to agents to which this one transfers. A paused run must be
// resumed by an agent with the same middlewares.
//
// With returns an error if a middleware of c has the name of one of the agent's middlewares.
func (a *Agent) With(c *chain.Chain) (*Agent, error) {
	joined, err := a.Chain.Join(c)
	if err != nil {
		return nil, fmt.Errorf("agent %q with the middlewares of a run: %w", a.Name, err)
	}
	b := *a
	b.Chain = joined
	b.with = slices.Clone(a.with)
	for _, e := range c.Entries() {
		b.with = append(b.with, e.Name)
	}
	return &b, nil
}

// WithTools returns a copy of the agent with additional tools, such as those that the client of a
// request executes; see [tool.ByClient]. A paused run must be resumed by an agent with the same
// tools. WithTools returns an error if a tool is invalid or another tool has the same name.
func (a *Agent) WithTools(tools ...tool.Tool) (*Agent, error) {
	b := *a
	b.Tools, b.tools = slices.Clone(a.Tools), maps.Clone(a.tools)
	for _, t := range tools {
		if err := b.addTool(t); err != nil {
			return nil, fmt.Errorf("agent %q with the tools of a run: %w", a.Name, err)
		}
		b.Tools = append(b.Tools, t)
	}
	return &b, nil
}

// given returns the agent for a run whose input has chain c: the agent itself if c is nil, and
// otherwise a copy with the entries of c. If the copy cannot be made, given returns the agent
// itself and the error that ends the run.
func (a *Agent) given(c *chain.Chain) (*Agent, error) {
	if c == nil {
		return a, nil
	}
	b, err := a.With(c)
	if err != nil {
		return a, err
	}
	return b, nil
}

// checkWith returns an error if the run of state s had other additional middlewares than the agent
// has. The run must not continue without a middleware that guards it.
func (a *Agent) checkWith(s *runlog.State) error {
	if slices.Equal(a.with, s.With) {
		return nil
	}
	text := "had none"
	if len(s.With) > 0 {
		text = "had " + strings.Join(s.With, ", ")
	}
	return errors.New(
		"in addition to the agent's own middlewares, the run " + text + "; resume it with Agent.With and the same",
	)
}
