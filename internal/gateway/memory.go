package gateway

import (
	"context"
	"errors"
	"io"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The memory that the gateway counts for text, as a multiple of its bytes.
const (
	bodyCopies  = 2 // a body, and the values parsed from it
	chunkCopies = 3 // text of a stream: in the codec, in the weaver and in the chain
)

// A memory counts what the gateway holds for one request: the bodies of the request and the answer, and
// the events that wait for modules. It is released at once, at the end of the request.
type memory struct {
	account *account.Account
	held    int // bytes of events that wait for modules
}

func newMemory(of *account.Account) *memory {
	return &memory{account: account.New(account.LevelRun, "", of, 0)}
}

// release releases all of the memory.
func (m *memory) release() { m.account.Close() }

// charge reserves n bytes, or releases them if n is negative. The error is a *wire.Error: temporary, unless
// n is more than the limit.
func (m *memory) charge(n int) error {
	if n < 0 {
		m.account.Release(int64(-n))
		return nil
	}
	err := m.account.TryReserve(int64(n))
	full, ok := errors.AsType[*account.LimitError](err)
	switch {
	case err == nil:
		return nil
	case ok && m.account.Used()+int64(n) > full.Limit:
		return wire.Errorf(wire.CodeTooLarge,
			"the request needs more than %d bytes of memory, the limit of the gateway", full.Limit)
	}
	return wire.Errorf(wire.CodeBusy, "the gateway has no memory left for the request; try again later")
}

// hold sets the number of bytes of the events that wait for modules to held, and counts the received chunks.
func (m *memory) hold(held int, chunks []abi.Chunk) error {
	n := held - m.held
	m.held = held
	for i := range chunks {
		n += chunkCopies * (len(chunks[i].Text) + len(chunks[i].Arguments))
	}
	return m.charge(n)
}

// counted returns a reader of body that reserves memory for the bytes that it reads.
func (m *memory) counted(body io.Reader) io.Reader { return &countedReader{body, m} }

type countedReader struct {
	io.Reader
	memory *memory
}

// Read reads, and reserves memory for the bytes read. It returns the error of the reservation if there is not enough
// memory.
func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if full := r.memory.charge(bodyCopies * n); full != nil {
		return n, full
	}
	return n, err
}

// Account implements [hook.Accountant].
func (m *memory) Account() *account.Account { return m.account }

// AwaitMemory implements [hook.Accountant]. It does not wait: a request releases memory only at its end.
func (m *memory) AwaitMemory(_ context.Context, n int64) error { return m.HasMemory(n) }

// HasMemory implements [hook.Accountant].
func (m *memory) HasMemory(n int64) error {
	err := m.account.TryReserve(n)
	if err == nil {
		m.account.Release(n)
	}
	return err
}
