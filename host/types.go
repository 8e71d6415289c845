package host

import (
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// Modules, their limits and their grants.
type (
	// A Module is a loaded module, which entries of agents use. Close releases it.
	Module = module.Module
	// Limits bound the time, memory and fuel of one module. Zero fields have defaults.
	Limits = policy.Limits
	// Grants are the permissions of one entry beyond those that its hooks have, for example to send HTTP requests, to
	// call tools or to use durable values. The zero value grants only reading all messages.
	Grants = policy.Grants
	// When restricts one entry to some runs and calls. The zero value restricts nothing.
	When = hook.When
	// Network sets the private addresses and the secrets of modules' requests.
	Network = egress.Options
	// Profile collects the fuel of each function of modules; see Options.Profile.
	Profile = sandbox.Profile
	// CompileChild limits the processes that compile modules: time and memory.
	CompileChild = child.Options
)

// Runs: their input, limits, state, journal and traces.
type (
	// Input is the input of a run: the messages, and optionally an id and metadata.
	Input = agent.Input
	// RunLimits limit the model calls, the tool calls, the calls of each tool and the journal bytes of one run.
	RunLimits = agent.Limits
	// State is a paused run, which [Agent.Resume] resumes. It can be encoded as JSON.
	State = runlog.State
	// JournalOptions journal runs in a store, so that they survive the process.
	JournalOptions = journal.Options
	// Tracer observes the operations of runs; package telemetry has one for OpenTelemetry.
	Tracer = tracing.Tracer
)

// Ends of runs. The error of a run without an answer is an [*Error], in which errors.As
// finds one of these types.
type (
	// Error reports the end of a run, with its finish reason.
	Error = agent.Error
	// PausedError reports a run that waits for answers. The run has not ended.
	PausedError = agent.PausedError
	// StoppedError reports that a middleware stopped the run.
	StoppedError = ending.StoppedError
	// FaultError reports a module that trapped, exceeded a limit or returned something invalid.
	FaultError = ending.FaultError
	// HookError reports a hook that returned an error.
	HookError = ending.HookError
	// LimitError reports that the run reached one of its limits, such as a number of steps or
	// calls.
	LimitError = ending.LimitError
	// ModelError reports that the model failed.
	ModelError = agent.ModelError
	// MemoryError reports that the run would exceed its memory.
	MemoryError = agent.MemoryError
	// CanceledError reports that the caller or the operator canceled the run.
	CanceledError = agent.CanceledError
	// BlockedError reports that the operator blocks a module of the agent.
	BlockedError = agent.BlockedError
	// TimeoutError reports that the run's timeout or deadline passed.
	TimeoutError = agent.TimeoutError
	// AdmissionError reports that the run did not start, because the host is closed or has no
	// memory for it.
	AdmissionError = agent.AdmissionError
	// ExpiredError reports that the run was paused for longer than AgentOptions.PauseTimeout.
	ExpiredError = agent.ExpiredError
)

// An AgentFile describes an agent in YAML or JSON; docs/agent.schema.json is its schema.
type AgentFile = agentfile.File

// LoadFile reads an agent file. Paths in it are relative to its folder. An error about its
// content names the line and says what the file may contain there.
func LoadFile(path string) (*AgentFile, error) { return agentfile.Load(path) }
