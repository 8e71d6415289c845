package chain

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// maxRecord is how many bytes are kept of what was done in one phase of a run,
// in case it pauses. What a phase does is bounded by what wrappers make of it:
// each may have the rest of the chain run 64 times.
const maxRecord = 128 << 20

// keptBeside is what a thing that was done counts beside its answer.
const keptBeside = 256

// Weigh says how many bytes the hook answered with, for a middleware whose
// answers are bytes.
func (c *Call) Weigh(bytes int64) { c.weight = bytes }

// hold makes room for the answer of a hook in the record of the phase, or says
// that there is none: a fault of whoever wants to add to it.
func (r *Record) hold(weight int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if weight += keptBeside; r.bytes+weight > maxRecord {
		return &Fault{Stage: StageAnswer, Limit: "record_bytes", Value: maxRecord, Cause: fmt.Errorf(
			"what hooks, model and tools answered in one phase of the run takes more than %d bytes; call next less often, or answer with less", maxRecord)}
	}
	r.bytes += weight
	return nil
}

// weigh is about how many bytes of an answer of the model or of a tool are kept.
func weigh(out any) int64 {
	var content abi.Content
	n := keptBeside
	switch out := out.(type) {
	case *abi.Result:
		content = out.Content
		n += len(out.Extra)
	case *abi.Response:
		content = out.Message.Content
		n += len(out.Message.ReasoningContent)
		for _, c := range out.Message.ToolCalls {
			n += len(c.Function.Arguments)
		}
	default:
		return 0 // it was held
	}
	for _, p := range content.Parts() {
		n += len(p.Text) + len(p.ImageURL) + len(p.InputAudio) + len(p.File)
	}
	return int64(n)
}
