package module

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/chain"
)

// A visit is one call of a module's export: what the host keeps of it while
// the guest's code runs. It belongs to the goroutine of that call.
//
// Its methods are the host calls of the ABI without the form in which a
// transport makes them. They return *abi.Error for what the guest is to see.
type visit struct {
	hook   abi.Hook
	limits *Limits
	call   *chain.Call     // nil while the image is built
	config json.RawMessage // nil while it is not to be had
	log    func(level int32, text string)
	began  int64 // what the guest's clock shows at first, in nanoseconds

	waited    bool // in a host call that waits
	pending   []byte
	output    []byte
	hostCalls int
	logged    int // bytes
	recent    []string
	bytesIn   int64 // copied to the guest
	bytesOut  int64 // copied from it
}

type visitKey struct{}

// context returns ctx with the visit in it, where imports find it.
func (v *visit) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func visitOf(ctx context.Context) *visit { return ctx.Value(visitKey{}).(*visit) }

// clock is what the guest's clock shows, in nanoseconds: that of the input,
// and the host's again once it has waited.
func (v *visit) clock() int64 {
	if !v.waited {
		return v.began
	}
	return v.call.Where().NowMS * 1e6
}

// recentLines is how many printed lines a fault tells.
const recentLines = 16

// print takes a line that the guest printed.
func (v *visit) print(line []byte) {
	text := string(line)
	if len(v.recent) == recentLines {
		v.recent = append(v.recent[:0], v.recent[1:]...)
	}
	v.recent = append(v.recent, text)
	v.log(abi.LogInfo, text)
}

// count counts a host call.
func (v *visit) count() error {
	if v.hostCalls++; v.hostCalls > v.limits.HostCalls {
		return &limitError{"host_calls", v.limits.HostCalls, fmt.Sprintf("host call %d", v.hostCalls), ""}
	}
	return nil
}

// room says how much of a log text of n bytes there is room for.
func (v *visit) room(n int) int {
	left := v.limits.LogBytes - v.logged
	v.logged += n
	if left > 0 && n > left {
		v.log(abi.LogWarn, fmt.Sprintf("further text of this hook's log is dropped: more than the limit log_bytes of %d", v.limits.LogBytes))
	}
	return max(0, min(n, left, v.limits.LogLineBytes))
}

// next runs what the hook wraps with a patch, empty for none.
func (v *visit) next(ctx context.Context, patch []byte) ([]byte, error) {
	v.waited = true
	switch v.hook {
	case abi.HookWrapModel:
		var p abi.RequestPatch
		if err := v.decode("next: patch of the request", patch, &p); err != nil {
			return nil, err
		}
		res, err := v.call.NextModel(ctx, p)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(abi.ModelReply{Response: res})
	case abi.HookWrapToolCall:
		var p abi.CallPatch
		if err := v.decode("next: patch of the call", patch, &p); err != nil {
			return nil, err
		}
		res, err := v.call.NextTool(ctx, p)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(abi.ToolReply{Result: res})
	default:
		_, err := v.call.Next(ctx, nil) // says why not
		return nil, err
	}
}

// decode reads what the guest hands to a host call; nothing leaves out as it is.
func (v *visit) decode(what string, b []byte, out any) error {
	if len(b) == 0 {
		return nil
	}
	unknown, err := abi.Decode(b, out)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: what + ": " + err.Error()}
	}
	v.tellUnknown(what, unknown)
	return nil
}

func (v *visit) tellUnknown(what string, keys []string) {
	for _, key := range keys {
		v.log(abi.LogWarn, fmt.Sprintf("%s: unknown key %s", what, key))
	}
}

func (v *visit) messages(list, from, to int) ([]byte, error) {
	return v.call.Messages(list, from, to, v.limits.ReplyBytes)
}

func (v *visit) localGet(key string) ([]byte, error) {
	value, ok, err := v.call.LocalGet(key)
	if err != nil || !ok {
		return nil, err
	}
	return abi.Marshal(value)
}

func (v *visit) localSet(key string, value []byte, version int64) ([]byte, error) {
	now, err := v.call.LocalSet(key, value, version)
	if err != nil {
		return nil, err
	}
	return abi.Marshal(abi.LocalVersion{Version: now})
}

func (v *visit) localAdd(key string, delta int64) ([]byte, error) {
	sum, err := v.call.LocalAdd(key, delta)
	if err != nil {
		return nil, err
	}
	return abi.Marshal(sum)
}

func (v *visit) emit(b []byte) error {
	var e abi.Custom
	unknown, err := abi.Decode(b, &e)
	switch {
	case err != nil:
		return &abi.Error{Code: abi.CodeInvalid, Message: "emit: " + err.Error()}
	case len(unknown) > 0:
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("emit: unknown key %s; want name and data", unknown[0])}
	}
	return v.call.Emit(e.Name, e.Data)
}
