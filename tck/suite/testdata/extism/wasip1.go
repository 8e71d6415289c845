//go:build wasip1

// This file replaces the SDK's wasip1.go when the modules of the golden cases are built as an
// Extism plug-in.

package middleware

import (
	"encoding/binary"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// export runs a hook and sets its output or error.
func export(hook abi.Hook) int32 {
	input := make([]byte, inputLength())
	fill(input, inputLoad, inputLoadByte, 0)
	output, ok := registered.Call(plugin{}, hook, input)
	if !ok {
		errorSet(block(output))
		return 1
	}
	if output != nil {
		outputSet(block(output), uint64(len(output)))
	}
	return 0
}

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env length
func length(at uint64) uint64

//go:wasmimport extism:host/env load_u64
func load(at uint64) uint64

//go:wasmimport extism:host/env load_u8
func loadByte(at uint64) uint32

//go:wasmimport extism:host/env store_u64
func store(at, value uint64)

//go:wasmimport extism:host/env store_u8
func storeByte(at uint64, value uint32)

//go:wasmimport extism:host/env free
func free(at uint64)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u64
func inputLoad(at uint64) uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadByte(at uint64) uint32

//go:wasmimport extism:host/env output_set
func outputSet(at, n uint64)

//go:wasmimport extism:host/env error_set
func errorSet(at uint64)

//go:wasmimport extism:host/env log_debug
func logDebug(at uint64)

//go:wasmimport extism:host/env log_info
func logInfo(at uint64)

//go:wasmimport extism:host/env log_warn
func logWarn(at uint64)

//go:wasmimport extism:host/env log_error
func logError(at uint64)

// fill reads len(b) bytes at an offset into b, eight at a time.
func fill(b []byte, load func(uint64) uint64, loadByte func(uint64) uint32, at uint64) {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], load(at+uint64(i)))
	}
	for ; i < len(b); i++ {
		b[i] = byte(loadByte(at + uint64(i)))
	}
}

// block allocates a block with the given bytes. It returns 0 for an empty slice.
func block(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	at, i := alloc(uint64(len(b))), 0
	for ; i+8 <= len(b); i += 8 {
		store(at+uint64(i), binary.LittleEndian.Uint64(b[i:]))
	}
	for ; i < len(b); i++ {
		storeByte(at+uint64(i), uint32(b[i]))
	}
	return at
}

// plugin implements [Host] with the functions of extism:host/user.
type plugin struct{}

// ask makes a host call. argument holds bytes, or a value to encode as JSON.
func ask(function func(uint64) uint64, argument any) ([]byte, error) {
	b, ok := argument.([]byte)
	if !ok {
		var err error
		if b, err = abijson.Marshal(argument); err != nil {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: err.Error()}
		}
	}
	at := block(b)
	defer free(at)
	return reply(function(at))
}

// do makes a host call without a result.
func do(function func(uint64) uint64, argument any) error {
	_, err := ask(function, argument)
	return err
}

// reply reads and frees the block at offset at, which holds the host's reply. It returns nil for an
// empty reply, and an error if the reply contains one.
func reply(at uint64) ([]byte, error) {
	b := make([]byte, length(at))
	fill(b, load, loadByte, at)
	free(at)
	var failed struct {
		Error *abi.Error `json:"error"`
	}
	if len(b) > 0 && b[0] == '{' {
		if err := json.Unmarshal(b, &failed); err != nil {
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply: " + err.Error()}
		}
	}
	switch {
	case failed.Error != nil:
		return nil, failed.Error
	case string(b) == "{}": // an empty reply
		return nil, nil
	default:
		return b, nil
	}
}

type object = map[string]any

func (plugin) Next(patch []byte) ([]byte, error) { return ask(userNext, patch) }

func (plugin) NextStream(patch []byte) error { return do(userNextStream, patch) }

func (plugin) Recv() ([]byte, error) { return reply(userRecv()) }

func (plugin) Send(chunks []byte) error { return do(userSend, chunks) }

func (plugin) Messages(list, from, to int) ([]byte, error) {
	return ask(userMessages, object{"list": list, "from": from, "to": to})
}

func (plugin) Changed(list int, revision int64) (int, error) {
	b, err := ask(userChanged, object{"list": list, "revision": revision})
	if err != nil {
		return 0, err
	}
	var n int
	return n, json.Unmarshal(b, &n)
}

func (plugin) LocalGet(key string) ([]byte, error) { return ask(userLocalGet, object{"key": key}) }

func (plugin) LocalDelete(key string) error { return do(userLocalDelete, object{"key": key}) }

func (plugin) LocalSet(key string, value []byte, version int64) ([]byte, error) {
	return ask(userLocalSet, object{"key": key, "value": json.RawMessage(value), "version": version})
}

func (plugin) LocalAdd(key string, delta int64) ([]byte, error) {
	return ask(userLocalAdd, object{"key": key, "delta": delta})
}

func (plugin) StoreGet(key string) ([]byte, error) { return ask(userStoreGet, object{"key": key}) }

func (plugin) StoreDelete(key string) error { return do(userStoreDelete, object{"key": key}) }

func (plugin) StoreSet(key string, value []byte, version, ttl int64) ([]byte, error) {
	return ask(userStoreSet, object{"key": key, "value": json.RawMessage(value), "version": version, "ttl": ttl})
}

func (plugin) StoreAdd(key string, delta int64) ([]byte, error) {
	return ask(userStoreAdd, object{"key": key, "delta": delta})
}

func (plugin) Model(request []byte) ([]byte, error) { return ask(userModel, request) }

func (plugin) Tool(request []byte) ([]byte, error) { return ask(userTool, request) }

func (plugin) HTTP(request []byte) ([]byte, error) { return ask(userHTTP, request) }

func (plugin) Emit(event []byte) error { return do(userEmit, event) }

func (plugin) Log(level int, text string) {
	functions := []func(uint64){logDebug, logInfo, logWarn, logError}
	functions[level](block([]byte(text)))
}
