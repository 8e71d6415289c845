package record

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// begun reports whether a tool was called and nobody knows what came of it.
func (r *Record) Begun(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Begun && !e.Done
}

// setBegun notes that a tool is about to be called, or that it is known to
// have done nothing yet.
func (r *Record) SetBegun(key string, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(key).Begun = begun
}

// BegunTool reports whether the tool of a call was called, and nobody knows what
// came of it.
func (r *Record) ToolBegun(callID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.entries {
		if strings.HasPrefix(key, kindTool+"/"+callID+"#") && e.Begun && !e.Done {
			return true
		}
	}
	return false
}

// open notes a tool call of a middleware's own that has begun.
func (r *Record) OpenNested(key string, call *abi.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *call
	r.change(key).Own = &own
}

// hasBegun reports whether a tool call of a middleware's own has begun in an
// earlier pass.
func (r *Record) HasNested(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Own != nil
}

// opened are the calls that have begun, and whose end was not told of.
func (r *Record) OpenNestedCalls() map[string]*abi.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]*abi.Call{}
	for key, e := range r.entries {
		if e.Own != nil && e.Events == 1 {
			out[key] = e.Own
		}
	}
	return out
}
