// Package puppet implements a middleware that follows a script. The same code runs in the host's
// process and as a WebAssembly module.
package puppet

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Script defines what a puppet does in one of its hooks, after it has reported the hook's input.
type Script struct {
	// Next lists a wrapper's calls of next, each with its change of the request; "" makes no
	// change. With [Read], the wrapper opens a stream instead and sends the stream's chunks.
	Next []string `json:"next,omitempty"`
	// Do is the final action of the hook; "" does nothing.
	Do string `json:"do,omitempty"`
	// Keep makes the hook count its calls in a run-local value and report the count. The write
	// takes effect if the hook succeeds.
	Keep bool `json:"keep,omitempty"`
	// Own is the call that the puppet makes for itself before the other actions: [OwnModel] or
	// [OwnTool].
	Own string `json:"own,omitempty"`
	// Late makes on_chunk act only on a chunk that contains [LateSign], so that it acts in the
	// middle of a stream.
	Late bool `json:"late,omitempty"`
}

// LateSign is a character of [Signs]. A late on_chunk hook acts only on chunks that contain it.
const LateSign = "@"

// The calls that a puppet can make for itself: of the model, with one message, or of the tool
// "plain".
const (
	OwnModel = "model"
	OwnTool  = "tool"
)

// OwnArguments returns the arguments with which an entry's puppet calls the tool "plain" for
// itself.
func OwnArguments(entry string) string { return `{"own":"` + entry + `"}` }

// Read is an element of [Script.Next] that opens the stream of the wrapped call and reads it.
const Read = "~"

// The final actions of a hook. Each comment begins with the hooks that support the action.
const (
	Fail  = "fail"  // all: returns an error
	Fault = "fault" // all: causes a fault
	Stop  = "stop"  // hooks with control: ends the run
	Pause = "pause" // hooks with control: interrupts the run; changes nothing when it is called again

	Edit   = "edit"   // changes the messages, text or arguments that the hook receives
	Answer = "answer" // answers in place of the wrapped call or of the answer seen
	Error  = "error"  // after_model, after_tool: replaces the answer with an error
	Again  = "again"  // after_model, after_tool: repeats the call, once in a step
	Insert = "insert" // state hooks, before_model: adds a user message
	Drop   = "drop"   // on_chunk: withholds text; before_agent: removes the tool "plain"
	Add    = "add"    // before_agent: adds a tool of its own
	Fewer  = "fewer"  // before_model_rewrite_state: leaves only "plain" active
	Direct = "direct" // before_agent: makes "pieces" end the run

	Allow = "allow" // gate_tool
	Deny  = "deny"
	Ask   = "ask"
)

// Tool returns the name of the tool that the puppet of an entry adds.
func Tool(entry string) string { return "of_" + entry }

// Signs are the characters that on_chunk changes. They occur in text from models, tools and
// puppets, but not in text from the host. An entry replaces one of them with the next. The result
// depends on the order of the entries, but not on how the text is divided into chunks.
const Signs = "@%^*$"

// Edited returns text as the on_chunk hook of an entry changes it.
func Edited(entry, text string) string {
	n := int(entry[len(entry)-1]) % len(Signs)
	return strings.ReplaceAll(text, Signs[n:n+1], Signs[(n+1)%len(Signs):][:1])
}

// Mark returns a string that is unique to an action in one hook of an entry.
func Mark(what, entry string, h abi.Hook) string { return what + ":" + entry + "." + string(h) + Signs }

// String returns the script's fields as in a Go literal.
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
