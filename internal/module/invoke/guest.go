package invoke

import (
	"fmt"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Take copies an argument of n bytes at ptr out of the guest's memory. The argument what is the
// name of the guest's argument in errors. If the bytes lie outside of the memory, are too many, or
// exceed the fuel or the run's memory, Take aborts the guest and does not return.
func (inv *Invocation) Take(g *sandbox.Guest, what string, ptr, n uint64) []byte {
	return inv.takeInto(nil, g, what, ptr, n)
}

// TakeBriefly is like Take, but its result is valid only until the next call of TakeBriefly.
func (inv *Invocation) TakeBriefly(g *sandbox.Guest, what string, ptr, n uint64) []byte {
	return inv.takeInto(&inv.takeBuffer, g, what, ptr, n)
}

// TakeAnswer copies the hook's answer out of the guest's memory to inv.Output. It aborts the guest
// in the same cases as Take.
func (inv *Invocation) TakeAnswer(g *sandbox.Guest, ptr, n uint64) {
	inv.Output = inv.takeInto(&inv.outputBuffer, g, "the answer", ptr, n)
}

// takeInto is like Take. If buffer is not nil and calls are not recorded, takeInto copies the bytes
// into *buffer, which it replaces with a larger buffer if necessary.
func (inv *Invocation) takeInto(buffer *[]byte, g *sandbox.Guest, what string, ptr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	if !InMemory(g, ptr, n) {
		g.Read(uint32(ptr), uint32(n)) // does not return
	}
	if n > uint64(inv.Limits.OutputBytes) {
		g.Abort(
			&policy.LimitError{Limit: "output_bytes", Max: inv.Limits.OutputBytes, What: fmt.Sprintf("%s: %d bytes", what, n)},
		)
	}
	inv.ChargeBytes(g, int(n))
	inv.BytesOut += int64(n)
	if err := inv.holdTaken(buffer, int(n)); err != nil {
		g.Abort(err)
	}
	if buffer == nil || inv.Recorder != nil {
		return g.Read(uint32(ptr), uint32(n))
	}
	*buffer = g.ReadInto(*buffer, uint32(ptr), uint32(n))
	return *buffer
}

// holdTaken counts n bytes that are copied from the guest to buffer towards the run's memory. If
// buffer is outputBuffer, the bytes are an answer, which replaces the previous answer. Otherwise
// they are an argument, which counts twice: for its bytes, and for the values that are decoded from
// them. holdTaken returns an error if the run's memory is used up.
func (inv *Invocation) holdTaken(buffer *[]byte, n int) error {
	if buffer != &inv.outputBuffer {
		return inv.holdReply(2 * n)
	}
	if err := inv.hold(int64(n) - inv.heldOutput); err != nil {
		return err
	}
	inv.heldOutput = int64(n)
	return nil
}

// InMemory reports whether n bytes at ptr lie in the guest's memory.
func InMemory(g *sandbox.Guest, ptr, n uint64) bool { return ptr+n <= uint64(g.MemorySize()) }

// TakeKey reads a key from the guest's memory. It returns an *abi.Error if the key has more than
// [contract.MaxKey] bytes or is not valid UTF-8, and aborts the guest if the key lies outside of
// the memory.
func (inv *Invocation) TakeKey(g *sandbox.Guest, ptr, n uint64) (string, error) {
	if n > contract.MaxKey && InMemory(g, ptr, n) {
		return "", &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("a key of %d bytes; at most %d are allowed", n, contract.MaxKey),
		}
	}
	key := inv.TakeBriefly(g, "key", ptr, n)
	if !utf8.Valid(key) {
		return "", &abi.Error{Code: abi.CodeInvalid, Message: "the key is not valid UTF-8"}
	}
	return string(key), nil
}
