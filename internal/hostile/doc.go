// Package hostile makes hostile modules, which a host of untrusted code must survive, and states
// the expected outcome of each. The package is for tests only, which run every module in the host,
// from loading to the end of a run.
//
// [Cases] are written by hand, [LimitCases] are cases that a single limit stops, and a [Generator]
// makes any number of others, always the same ones for a seed.
package hostile

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An Outcome is the expected outcome of a module.
type Outcome string

// The outcomes.
const (
	// Refused means that the module is not loaded, or not configured.
	Refused Outcome = "refused"
	// Faulted means that a hook ends in a typed fault or returns an error.
	Faulted Outcome = "faulted"
	// ErrorReply means that the guest gets an error object as the reply of a host call.
	ErrorReply Outcome = "error reply"
	// Harmless means that the run succeeds, because the host makes the module harmless.
	Harmless Outcome = "harmless"
)

// A Case is a hostile module and its expected outcome.
type Case struct {
	Group string // group in the catalogue
	Name  string
	// Module returns the module in the binary format.
	Module func() []byte
	// Config is the module's configuration. If it is empty, the module has none.
	Config string
	// Limits are the module's limits where they differ from the defaults.
	Limits policy.Limits

	Want Outcome
	// Hook is the hook that faults; empty if none does.
	Hook abi.Hook
	// Kind is the kind of the sandbox's fault. It is empty if the hook fails in another way.
	Kind sandbox.FaultKind
	// Text lists parts of the text of the rejection, the fault or the error object.
	Text []string

	// Entries is the number of entries of the chain with this module. The default is 1.
	Entries int
	// OnFault is the effect of a fault on the run.
	OnFault hook.OnFault
	// Replies returns the replies of the model. If Replies is nil, the model calls a
	// tool and then answers with text in three chunks.
	Replies func() []scripted.Reply
	// Whole disables streaming of the model's answers.
	Whole bool
	// Paced delays each chunk of the model until the caller has the previous one, so that
	// on_chunk gets each alone.
	Paced bool
	// Watch is called with each event of the run.
	Watch func(abi.Event)
	// Check returns an error if the run had any other unexpected effect.
	Check func(*Seen) error
}

// Seen holds the events, requests and error of a run.
type Seen struct {
	Events   []abi.Event
	Requests []Request // requests that reached the model
	Err      error     // error of run_finished
}

// Request is a request to the model.
type Request struct {
	Messages []abi.Message
	Tools    []abi.Tool
	Params   abi.Params
}

// Of returns the events of type t.
func (s *Seen) Of(t abi.EventType) []abi.Event {
	var out []abi.Event
	for _, e := range s.Events {
		if e.Type == t {
			out = append(out, e)
		}
	}
	return out
}

// Last returns the last event of the run.
func (s *Seen) Last() abi.Event { return s.Events[len(s.Events)-1] }

// Cases returns all cases of the catalogue.
func Cases() []Case {
	var all []Case
	for _, g := range []struct {
		name  string
		cases []Case
	}{
		{"Upload and compile", uploadCases()},
		{"Instantiate", startCases()},
		{"CPU", cpuCases()},
		{"Large slices", sliceCases()},
		{"Memory", memoryCases()},
		{"ABI", abiCases()},
		{"JSON", jsonCases()},
		{"Answers that cost", answerCases()},
		{"Onion", onionCases()},
		{"Streaming", streamCases()},
		{"Storage and logs", storageCases()},
		{"Shapes of code", shapeCases()},
		{"Quirks", quirkCases()},
		{"WASI", wasiCases()},
		{"Extism plug-ins", pluginCases()},
	} {
		for _, c := range g.cases {
			c.Group = g.name
			all = append(all, c)
		}
	}
	return all
}
