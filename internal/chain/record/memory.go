package record

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// maxRecord is how many bytes are kept of what was done in one phase of a run,
// in case it pauses. What a phase does is bounded by what wrappers make of it:
// each may have the rest of the chain run 64 times.
const maxRecord = 128 << 20

// keptBeside is what a thing that was done counts beside its answer.
const keptBeside = 256

// hold makes room for the answer of a hook in the record of the phase, or says
// that there is none: a fault of whoever wants to add to it.
func (r *Record) Reserve(weight int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if weight += keptBeside; r.bytes+weight > maxRecord {
		return &ending.FaultError{Stage: ending.StageAnswer, Limit: "record_bytes", Value: maxRecord, Cause: fmt.Errorf(
			"what hooks, model and tools answered in one phase of the run takes more than %d bytes; call next less often, or answer with less", maxRecord)}
	}
	if err := r.grow(weight); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// reserve counts the answer of a tool or a model before it is kept. The error is one of
// code limit, which takes the answer's place.
func (r *Record) ReserveAnswer(what string, out any) *abi.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.grow(weigh(out)); err != nil {
		return ending.LimitFailure(what, err)
	}
	return nil
}

// force counts the answer of a model or a tool even above the limits.
func (r *Record) Force(out any) {
	n := weigh(out)
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

// weigh is about how many bytes of an answer of the model or of a tool are kept.
func weigh(out any) int64 {
	switch out := out.(type) {
	case *abi.Result:
		return size.Result(out)
	case *abi.Response:
		return size.Message(&out.Message)
	default:
		return 0 // it was held
	}
}
