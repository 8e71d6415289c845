package record

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// maxRecord is the maximum size of the record of one phase, in bytes. Wrappers influence the size,
// because each can make the wrapped call 64 times.
const maxRecord = 128 << 20

// recordOverhead is the estimated size of a recorded call without its answer, in bytes.
const recordOverhead = 256

// Reserve counts weight bytes for the answer of a hook before the answer is recorded. The error is
// a fault of the entry.
func (r *Record) Reserve(weight int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if weight += recordOverhead; r.bytes+weight > maxRecord {
		return &ending.FaultError{Stage: ending.StageAnswer, Limit: "record_bytes", Value: maxRecord, Cause: fmt.Errorf(
			"what hooks, model and tools answered in one phase of the run takes more than %d bytes; call next less often, or answer with less",
			maxRecord,
		)}
	}
	if err := r.grow(weight); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// ReserveAnswer counts the memory of out, the answer of a tool or the model, before the answer is
// recorded. An error has the code [abi.CodeLimit] and replaces the answer. Its message begins with
// what, a description of the answer.
func (r *Record) ReserveAnswer(what string, out any) *abi.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.grow(weigh(out)); err != nil {
		return ending.LimitFailure(what, err)
	}
	return nil
}

// Force counts the memory of out, the answer of a tool or the model, even if that exceeds the
// limits.
func (r *Record) Force(out any) {
	n := weigh(out)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
	if r.share != nil {
		r.share.Force(n)
	}
}

// grow counts n more bytes. It returns an error if the run's memory is full. The caller holds the
// lock.
func (r *Record) grow(n int64) error {
	if r.share != nil {
		if err := r.share.Add(n); err != nil {
			return err
		}
	}
	r.bytes += n
	return nil
}

// weigh returns the approximate size in the record of a model's or tool's answer, in bytes. It
// returns 0 for the answer of a hook.
func weigh(out any) int64 {
	switch out := out.(type) {
	case *abi.Result:
		return size.Result(out)
	case *abi.Response:
		return size.Message(&out.Message)
	default:
		return 0 // Reserve has counted the answer of a hook
	}
}
