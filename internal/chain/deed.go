package chain

import (
	"encoding/json"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Deed is one thing that was done in a phase of a run, as its record has it.
type Deed struct {
	// What is a hook, or "model", or "tool" for the call of a tool itself.
	What  string `json:"what"`
	Entry string `json:"entry,omitempty"`
	// Call is the id of the tool call that it was about.
	Call string `json:"call,omitempty"`

	Answer  json.RawMessage `json:"answer,omitempty"` // of a hook; an abi.Response; an abi.Result
	Failed  *abi.Error      `json:"failed,omitempty"`
	Faulted bool            `json:"faulted,omitempty"`
	// Done says that it came to its end, and Begun that a tool was called.
	Done  bool `json:"done"`
	Begun bool `json:"begun,omitempty"`
}

// Answers are the answers to interrupts that a delta has, by their ids.
func (d *Delta) Answers() (map[string]json.RawMessage, error) {
	if d.Asked == nil {
		return nil, nil
	}
	var f recordFile
	if err := json.Unmarshal(d.Asked, &f); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, a := range f.Answers {
		out[a.ID] = a.Answer
	}
	return out, nil
}

// ReadDeed reads an entry of a [Delta]'s record.
func ReadDeed(key string, b json.RawMessage) (Deed, error) {
	var e recorded
	if err := json.Unmarshal(b, &e); err != nil {
		return Deed{}, err
	}
	d := Deed{Answer: e.Answer, Failed: e.Failed, Faulted: e.Faulted, Done: e.Done, Begun: e.Begun}
	if i := strings.LastIndexByte(key, '#'); i >= 0 {
		key = key[:i]
	}
	what, rest, _ := strings.Cut(key, "/")
	d.What = what
	if what == sourceTool {
		d.Call = rest
		return d, nil
	}
	d.Entry, d.Call, _ = strings.Cut(rest, "/")
	if what == string(abi.HookGateTool) {
		if i := strings.LastIndexByte(d.Call, '/'); i >= 0 {
			d.Call = d.Call[:i] // a digest of the arguments follows
		}
	}
	return d, nil
}
