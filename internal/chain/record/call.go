package record

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A CallRecord is one call in the record of a phase.
type CallRecord struct {
	// What is the name of a hook, "model" for a call of the model, or "tool" for a call of a tool.
	What  string `json:"what"`
	Entry string `json:"entry,omitempty"`
	// Call is the ID of the tool call to which a hook or tool belongs.
	Call string `json:"call,omitempty"`

	Answer  json.RawMessage `json:"answer,omitempty"` // a hook's answer, an abi.Response or an abi.Result
	Failed  *abi.Error      `json:"failed,omitempty"`
	Faulted bool            `json:"faulted,omitempty"`
	// Done is set when the call has finished, and Begun when a tool has been called.
	Done  bool `json:"done"`
	Begun bool `json:"begun,omitempty"`
	// Erased is set if the answer was erased, because modules removed something from the run.
	Erased bool `json:"erased,omitempty"`
}

// ParseCall decodes an entry of Record in a [Delta].
func ParseCall(key string, b json.RawMessage) (CallRecord, error) {
	var d CallRecord
	if err := json.Unmarshal(b, &d); err != nil {
		return CallRecord{}, err
	}
	at := parseKey(key)
	d.What, d.Entry, d.Call = at.What, at.Entry, at.Call
	return d, nil
}

// parseKey returns the call that a key identifies, without the outcome.
func parseKey(key string) (d CallRecord) {
	if i := strings.LastIndexByte(key, '#'); i >= 0 {
		key = key[:i]
	}
	what, rest, _ := strings.Cut(key, "/")
	d.What = what
	if what == kindTool {
		d.Call = rest
		return d
	}
	d.Entry, d.Call, _ = strings.Cut(rest, "/")
	if what == string(contract.HookGateTool) {
		if i := strings.LastIndexByte(d.Call, '/'); i >= 0 {
			d.Call = d.Call[:i] // a digest of the arguments follows
		}
	}
	return d
}

type recordKey struct{}

// WithKey returns a copy of ctx for a call of the model or of a tool. key identifies the call in
// the record of its phase.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, recordKey{}, key)
}

// KeyOf returns the key of the call to which ctx belongs, or "" if there is none. The key is the
// same when the run is replayed.
func KeyOf(ctx context.Context) string {
	key, _ := ctx.Value(recordKey{}).(string)
	return key
}
