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
	if err := r.grow(weight); err != nil {
		return memoryFault(err)
	}
	return nil
}

// reserve counts the answer of a tool or a model before it is kept. The error is one of
// code limit, which takes the answer's place.
func (r *Record) reserve(what string, out any) *abi.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.grow(weigh(out)); err != nil {
		return memoryFailure(what, err)
	}
	return nil
}

// force counts n more bytes, even above the limits.
func (r *Record) force(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
	if r.share != nil {
		r.share.Force(n)
	}
}

// grow counts n more bytes. Its callers hold the lock.
func (r *Record) grow(n int64) error {
	if r.share != nil {
		if err := r.share.Add(n); err != nil {
			return err
		}
	}
	r.bytes += n
	return nil
}

// overhead is about what a message, a part or an event takes beside its text.
const overhead = 256

// SizeOf returns about how many bytes a message takes, without its JSON.
func SizeOf(m *abi.Message) int64 {
	n := int64(overhead+len(m.ReasoningContent)+len(m.Extra)) + SizeOfContent(&m.Content) + sizeOfFields(m.Unknown)
	for i := range m.ToolCalls {
		n += int64(overhead + len(m.ToolCalls[i].Function.Arguments))
	}
	return n
}

// SizeOfContent returns about how many bytes content takes.
func SizeOfContent(c *abi.Content) int64 {
	if !c.IsParts() {
		return int64(len(c.String()))
	}
	var n int64
	parts := c.Parts()
	for i := range parts {
		n += SizeOfPart(&parts[i])
	}
	return n
}

// SizeOfPart returns about how many bytes a part of content takes.
func SizeOfPart(p *abi.Part) int64 {
	return int64(overhead+len(p.Text)+len(p.ImageURL)+len(p.InputAudio)+len(p.File)) + sizeOfFields(p.Unknown)
}

// SizeOfResult returns about how many bytes a tool's result takes.
func SizeOfResult(r *abi.Result) int64 {
	if r == nil {
		return 0
	}
	return int64(overhead+len(r.Extra)) + SizeOfContent(&r.Content)
}

// SizeOfEvent returns about how many bytes an event takes.
func SizeOfEvent(e *abi.Event) int64 {
	n := int64(2*overhead + len(e.Data) + len(e.Text) + len(e.Reason) + len(e.Cause))
	for _, line := range e.Stderr {
		n += int64(len(line))
	}
	if e.Message != nil {
		n += SizeOf(e.Message)
	}
	if e.Chunk != nil {
		n += int64(len(e.Chunk.Text) + len(e.Chunk.Arguments))
		if e.Chunk.Part != nil {
			n += SizeOfPart(e.Chunk.Part)
		}
	}
	if e.Call != nil {
		n += int64(len(e.Call.Arguments))
	}
	if e.Error != nil {
		n += int64(len(e.Error.Message))
	}
	for i := range e.Interrupts {
		n += int64(overhead + len(e.Interrupts[i].Payload) + len(e.Interrupts[i].Reason))
	}
	if e.Event != nil {
		n += SizeOfEvent(e.Event)
	}
	return n + SizeOfResult(e.Result)
}

func sizeOfFields(fields abi.Fields) int64 {
	var n int64
	for i := range fields {
		n += int64(len(fields[i].Name) + len(fields[i].Value))
	}
	return n
}

// weigh is about how many bytes of an answer of the model or of a tool are kept.
func weigh(out any) int64 {
	switch out := out.(type) {
	case *abi.Result:
		return SizeOfResult(out)
	case *abi.Response:
		return SizeOf(&out.Message)
	default:
		return 0 // it was held
	}
}
