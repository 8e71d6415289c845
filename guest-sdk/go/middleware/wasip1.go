//go:build wasip1

package middleware

import (
	"runtime"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// export runs a hook with an input of n bytes. It is the common implementation of all exports. It
// returns 1 if the hook fails, and 0 otherwise.
func export(hook abi.Hook, n int32) int32 {
	if registered == nil {
		panic("middleware: no middleware was registered: call middleware.Register in init")
	}
	beginHook()
	host := &imports{}
	answer, err := registered.answer(host, hook, host.pending(n))
	if answer != nil || err != nil {
		output, ok := answered(answers[:0], hook, answer, err)
		if output != nil {
			hostWrite(bytesAt(output))
			runtime.KeepAlive(output)
		}
		if cap(output) > cap(answers) && cap(output) <= maxRetained {
			answers = output
		}
		if !ok {
			return 1
		}
	}
	endHook(hook, n)
	return 0
}

// answers is the buffer for answers.
var answers = make([]byte, 4<<10)

// imports implements [Host] with the module's imports.
type imports struct{}

// pending reads n pending bytes. The caller owns them, and decoded values refer to them. They share
// blocks, because allocating a slice costs as much as reading several hundred bytes. The free bytes
// after them are the padding that [abijson.Read] requires.
func (*imports) pending(n int32) []byte {
	if n == 0 {
		return nil
	}
	size := int(n) + abijson.Pad
	receivedBytes += size
	if size > len(pool) {
		if size > blockBytes/4 {
			b := make([]byte, size)
			return b[:max(0, hostRead(unsafe.Pointer(unsafe.SliceData(b)), n))]
		}
		pool = make([]byte, blockBytes)
	}
	b := pool[:n:size]
	pool = pool[size:]
	return b[:max(0, hostRead(unsafe.Pointer(unsafe.SliceData(b)), n))]
}

// reply reads the pending reply of a host call that returned n: the size of the reply or, if
// negative, the size of an error object.
func (h *imports) reply(n int32) ([]byte, error) {
	if n >= 0 {
		return h.pending(n), nil
	}
	failed := &abi.Error{}
	if err := abijson.Read(h.pending(-n), (*abijson.Error)(failed)); err != nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's error: " + err.Error()}
	}
	return nil, failed
}

// done is like reply, for host calls that return no reply.
func (h *imports) done(n int32) error {
	if n >= 0 {
		return nil
	}
	_, err := h.reply(n)
	return err
}

func bytesAt(b []byte) (unsafe.Pointer, int32) {
	return unsafe.Pointer(unsafe.SliceData(b)), int32(len(b))
}

func textAt(s string) (unsafe.Pointer, int32) {
	return unsafe.Pointer(unsafe.StringData(s)), int32(len(s))
}

// Next implements [Host].
func (h *imports) Next(patch []byte) ([]byte, error) {
	n := hostNext(bytesAt(patch))
	runtime.KeepAlive(patch)
	return h.reply(n)
}

// NextStream implements [Host].
func (h *imports) NextStream(patch []byte) error {
	n := hostNextStream(bytesAt(patch))
	runtime.KeepAlive(patch)
	return h.done(n)
}

// Recv implements [Host].
func (h *imports) Recv() ([]byte, error) { return h.reply(hostRecv()) }

// Send implements [Host].
func (h *imports) Send(chunks []byte) error {
	n := hostSend(bytesAt(chunks))
	runtime.KeepAlive(chunks)
	return h.done(n)
}

// Messages implements [Host].
func (h *imports) Messages(list, from, to int) ([]byte, error) {
	return h.reply(hostMessages(int32(list), int32(from), int32(to)))
}

// Changed implements [Host].
func (h *imports) Changed(list int, revision int64) (int, error) {
	n := hostChanged(int32(list), revision)
	return int(n), h.done(n)
}

// LocalGet implements [Host].
func (h *imports) LocalGet(key string) ([]byte, error) {
	return h.reply(hostLocalGet(textAt(key)))
}

// LocalDelete implements [Host].
func (h *imports) LocalDelete(key string) error {
	return h.done(hostLocalDelete(textAt(key)))
}

// LocalSet implements [Host].
func (h *imports) LocalSet(key string, value []byte, version int64) ([]byte, error) {
	keyPtr, keyLen := textAt(key)
	valuePtr, valueLen := bytesAt(value)
	n := hostLocalSet(keyPtr, keyLen, valuePtr, valueLen, version)
	runtime.KeepAlive(value)
	return nil, h.done(n)
}

// LocalAdd implements [Host].
func (h *imports) LocalAdd(key string, delta int64) ([]byte, error) {
	ptr, n := textAt(key)
	return h.reply(hostLocalAdd(ptr, n, delta))
}

// StoreGet implements [Host].
func (h *imports) StoreGet(key string) ([]byte, error) {
	return h.reply(hostStoreGet(textAt(key)))
}

// StoreDelete implements [Host].
func (h *imports) StoreDelete(key string) error {
	return h.done(hostStoreDelete(textAt(key)))
}

// StoreSet implements [Host].
func (h *imports) StoreSet(key string, value []byte, version, ttl int64) ([]byte, error) {
	keyPtr, keyLen := textAt(key)
	valuePtr, valueLen := bytesAt(value)
	n := hostStoreSet(keyPtr, keyLen, valuePtr, valueLen, version, ttl)
	runtime.KeepAlive(value)
	return nil, h.done(n)
}

// StoreAdd implements [Host].
func (h *imports) StoreAdd(key string, delta int64) ([]byte, error) {
	ptr, n := textAt(key)
	return h.reply(hostStoreAdd(ptr, n, delta))
}

// Model implements [Host].
func (h *imports) Model(request []byte) ([]byte, error) {
	n := hostModel(bytesAt(request))
	runtime.KeepAlive(request)
	return h.reply(n)
}

// Tool implements [Host].
func (h *imports) Tool(request []byte) ([]byte, error) {
	n := hostTool(bytesAt(request))
	runtime.KeepAlive(request)
	return h.reply(n)
}

// HTTP implements [Host].
func (h *imports) HTTP(request []byte) ([]byte, error) {
	n := hostHTTP(bytesAt(request))
	runtime.KeepAlive(request)
	return h.reply(n)
}

// Emit implements [Host].
func (h *imports) Emit(event []byte) error {
	n := hostEmit(bytesAt(event))
	runtime.KeepAlive(event)
	return h.done(n)
}

// Log implements [Host].
func (h *imports) Log(level int, text string) {
	ptr, n := textAt(text)
	hostLog(int32(level), ptr, n)
}
