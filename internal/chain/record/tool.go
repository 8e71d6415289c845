package record

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Begun reports whether the tool call of key has begun and has no recorded outcome.
func (r *Record) Begun(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Begun && !e.Done
}

// SetBegun records whether the tool call of key has begun. Callers set it before they call the
// tool, and reset it if the tool asked for an interrupt and did nothing.
func (r *Record) SetBegun(key string, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(key).Begun = begun
}

// ToolBegun reports whether the tool of the call with ID callID was called and has no recorded
// outcome.
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

// OpenNested records the start of a tool call that a middleware makes for itself.
func (r *Record) OpenNested(key string, call *abi.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *call
	r.change(key).Own = &own
}

// HasNested reports whether key is a tool call of a middleware that an earlier pass has started.
func (r *Record) HasNested(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Own != nil
}

// OpenNestedCalls returns the tool calls of middlewares that have started and whose end was not
// reported, by key.
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
