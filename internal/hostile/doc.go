// Package hostile makes modules that mean harm, and says what must come of
// each: what a host has to survive that runs other people's code. Nothing of it
// is part of the product; its tests run every module through the host, from
// loading to the end of a run.
//
// [Cases] are those that somebody thought of, [LimitCases] those that one limit
// alone stops, and a [Generator] makes as many more as there is time for, the
// same ones from the same seed.
package hostile

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An Outcome is what becomes of a module.
type Outcome string

// The outcomes.
const (
	// Refused is a module that is not loaded, or not configured.
	Refused Outcome = "refused"
	// Faulted is a hook that ends in a typed fault.
	Faulted Outcome = "faulted"
	// Told is a guest that gets an error object as the reply of a host call.
	Told Outcome = "told"
	// Fine is a run that comes to its answer, since what the module does is
	// harmless.
	Fine Outcome = "fine"
)

// A Case is a hostile module and what must come of it.
type Case struct {
	Group string // of the catalogue
	Name  string
	// Module makes the module.
	Module func() []byte
	// Config is what it is configured with; nothing when empty.
	Config string
	// Limits are those that it runs under, where they are not the defaults.
	Limits policy.Limits

	Want Outcome
	// Hook is where it faults; empty while it is loaded.
	Hook abi.Hook
	// Kind is that of the fault, where it is one of the sandbox.
	Kind sandbox.FaultKind
	// Text stands in the refusal, the fault or the error object.
	Text []string

	// Entries is how many entries of the chain are this module; 0 is one.
	Entries int
	// OnFault is what a fault does to the run.
	OnFault chain.OnFault
	// Replies are those of the model; nil: one that calls a tool, and one that
	// answers with a text in three pieces.
	Replies func() []scripted.Reply
	// Whole asks the model for whole answers, not for streams.
	Whole bool
	// Paced lets the model wait with each chunk until the caller has the one
	// before, so that each comes alone to on_chunk.
	Paced bool
	// Watch sees the events of the run as they happen.
	Watch func(abi.Event)
	// Check looks at what else came of the run; it returns what is wrong.
	Check func(*Seen) error
}

// Seen is what was seen of a run.
type Seen struct {
	Events   []abi.Event
	Requests []Request // that reached the model
	Err      error     // that run_finished came with
}

// Request is what the model was asked.
type Request struct {
	Messages []abi.Message
	Tools    []abi.Tool
	Params   abi.Params
}

// Of returns the events of a type.
func (s *Seen) Of(t abi.EventType) []abi.Event {
	var out []abi.Event
	for _, e := range s.Events {
		if e.Type == t {
			out = append(out, e)
		}
	}
	return out
}

// Last is the run's last event.
func (s *Seen) Last() abi.Event { return s.Events[len(s.Events)-1] }

// Cases are all cases of the catalogue.
func Cases() []Case {
	var all []Case
	for _, g := range []struct {
		name  string
		cases []Case
	}{
		{"Upload and compile", uploadCases()},
		{"Instantiate", startCases()},
		{"CPU", cpuCases()},
		{"Long stretches", stretchCases()},
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
