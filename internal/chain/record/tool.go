package record

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Begun reports whether the tool call of key began and its outcome is unknown.
func (r *Record) Begun(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Begun && !e.Done
}

// SetBegun records whether the tool call of key has begun. It is called with true before the tool
// is called, and with false if the call turns out to have done nothing.
func (r *Record) SetBegun(key string, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(key).Begun = begun
}

// ToolBegun reports whether the tool of a call was called but its outcome is unknown.
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

// OpenNested records that a middleware makes a tool call for itself.
func (r *Record) OpenNested(key string, call *abi.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *call
	r.change(key).Own = &own
}

// HasNested reports whether an earlier pass started a middleware's tool call.
func (r *Record) HasNested(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && e.Own != nil
}

// OpenNestedCalls returns, by key, the middlewares' tool calls that have started and whose end was
// not reported.
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
