package record

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// maxRecord bounds the record of one phase, in bytes. Wrappers influence its size: each may run the
// rest of the chain 64 times.
const maxRecord = 128 << 20

// recordOverhead is the estimated size of a recorded call without its answer, in bytes.
const recordOverhead = 256

// Reserve counts the answer of a hook before it is recorded. The error is a fault of the
// entry.
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

// ReserveAnswer counts out, the answer of a tool or the model, before it is recorded. The error,
// whose code is [abi.CodeLimit], replaces the answer. Its message begins with what.
func (r *Record) ReserveAnswer(what string, out any) *abi.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.grow(weigh(out)); err != nil {
		return ending.LimitFailure(what, err)
	}
	return nil
}

// Force counts the answer of a tool or the model even beyond the limits.
func (r *Record) Force(out any) {
	n := weigh(out)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
	if r.share != nil {
		r.share.Force(n)
	}
}

// grow counts n more bytes. It fails if the run's memory is full. The caller holds the lock.
func (r *Record) grow(n int64) error {
	if r.share != nil {
		if err := r.share.Add(n); err != nil {
			return err
		}
	}
	r.bytes += n
	return nil
}

// weigh returns the approximate size of a model's or tool's answer in the record, in bytes; 0 for
// answers that were counted earlier.
func weigh(out any) int64 {
	switch out := out.(type) {
	case *abi.Result:
		return size.Result(out)
	case *abi.Response:
		return size.Message(&out.Message)
	default:
		return 0 // counted by Reserve
	}
}
