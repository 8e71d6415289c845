// Package puppet is a middleware that does what a script says, with the same code in the
// host's process and as a WebAssembly module.
package puppet

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Script says what a puppet does each time one of its hooks is called, after reporting
// what the hook saw.
type Script struct {
	// Next lists a wrapper's calls of what it wraps, each with the change of the request;
	// "" changes nothing. [Read] opens a stream instead, sends on its chunks, and answers
	// when it ends.
	Next []string `json:"next,omitempty"`
	// Do is how the hook ends; "" changes nothing.
	Do string `json:"do,omitempty"`
	// Keep makes the hook count its calls in a run-local value, which waits for the hook's
	// success, and report the count.
	Keep bool `json:"keep,omitempty"`
	// Own is a call that the puppet makes for itself first: [OwnModel] or [OwnTool].
	Own string `json:"own,omitempty"`
	// Late lets on_chunk do what it does only at a piece that says [LateSign]: in the middle of
	// a stream, and at the same texts where there are no streams.
	Late bool `json:"late,omitempty"`
}

// LateSign is one of the [Signs].
const LateSign = "@"

// The calls that a puppet may make: of the model, with one message, and of the
// tool "plain".
const (
	OwnModel = "model"
	OwnTool  = "tool"
)

// OwnArguments are those with which the puppet of an entry calls the tool.
func OwnArguments(entry string) string { return `{"own":"` + entry + `"}` }

// Read is a call of what is wrapped whose stream the puppet reads.
const Read = "~"

// What a puppet may do at the end of a hook, and in which.
const (
	Fail  = "fail"  // all: returns an error
	Fault = "fault" // all: breaks
	Stop  = "stop"  // those that may: ends the run
	Pause = "pause" // those that may: interrupts the run; called again, changes nothing

	Edit   = "edit"   // marks what it was shown
	Answer = "answer" // says something of its own instead
	Error  = "error"  // after_model, after_tool: makes an error of it
	Again  = "again"  // after_model, after_tool: has the call made again, once in a step
	Insert = "insert" // state hooks, before_model: adds a user's message
	Drop   = "drop"   // on_chunk: withholds texts; before_agent: removes the tool "plain"
	Add    = "add"    // before_agent: adds a tool of its own
	Fewer  = "fewer"  // before_model_rewrite_state: "plain" alone is active
	Direct = "direct" // before_agent: "pieces" ends the run

	Allow = "allow" // gate_tool
	Deny  = "deny"
	Ask   = "ask"
)

// Tool is the name of the tool that the puppet of an entry adds.
func Tool(entry string) string { return "of_" + entry }

// Signs are what on_chunk changes: they stand in what models, tools and puppets say and in
// nothing that a host says. An entry makes the next one of one of them, so that the
// same comes of any pieces of a text, and the order of entries matters.
const Signs = "@%^*$"

// Edited is what the on_chunk of an entry makes of a text.
func Edited(entry, text string) string {
	n := int(entry[len(entry)-1]) % len(Signs)
	return strings.ReplaceAll(text, Signs[n:n+1], Signs[(n+1)%len(Signs):][:1])
}

// Mark is what the puppet of an entry says in a hook, and nobody else.
func Mark(what, entry string, h abi.Hook) string { return what + ":" + entry + "." + string(h) + Signs }

// String is the script's fields, as in a Go literal.
func (s Script) String() string {
	var f []string
	if s.Next != nil {
		f = append(f, fmt.Sprintf("Next: %#v", s.Next))
	}
	if s.Do != "" {
		f = append(f, fmt.Sprintf("Do: %q", s.Do))
	}
	if s.Keep {
		f = append(f, "Keep: true")
	}
	if s.Own != "" {
		f = append(f, fmt.Sprintf("Own: %q", s.Own))
	}
	if s.Late {
		f = append(f, "Late: true")
	}
	return strings.Join(f, ", ")
}
