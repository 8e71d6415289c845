package invoke

import (
	"strconv"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// LocalGet returns a run-local value and its version as JSON. The reply is empty if the value does
// not exist.
func (inv *Invocation) LocalGet(key string) ([]byte, error) {
	return inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "local_get", Bytes: []replay.Blob{replay.Blob(key)}}
	}, func() ([]byte, error) {
		value, ok, err := inv.Call.LocalGet(key)
		if err != nil || !ok {
			return nil, err
		}
		b := append(make([]byte, 0, len(value.Value)+40), `{"value":`...)
		b = jsoncodec.Append(b, value.Value)
		b = append(b, `,"version":`...)
		return append(strconv.AppendInt(b, value.Version, 10), '}'), nil
	})
}

// LocalSet sets a run-local value as [hook.Call.LocalSet] does, and returns its new version as
// JSON.
func (inv *Invocation) LocalSet(key string, value []byte, version int64) ([]byte, error) {
	return inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "local_set", Bytes: []replay.Blob{replay.Blob(key), value}, Numbers: []int64{version}}
	}, func() ([]byte, error) {
		if len(value) > smallJSON {
			hook.ControlOf(inv.Call).Until(inv.checkTime)
		}
		now, err := inv.Call.LocalSet(key, value, version)
		if err != nil {
			return nil, err
		}
		b := append(make([]byte, 0, 32), `{"version":`...)
		return append(strconv.AppendInt(b, now, 10), '}'), nil
	})
}

// LocalDelete deletes a run-local value. The reply is empty.
func (inv *Invocation) LocalDelete(key string) ([]byte, error) {
	return inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "local_delete", Bytes: []replay.Blob{replay.Blob(key)}}
	}, func() ([]byte, error) {
		return nil, inv.Call.LocalDelete(key)
	})
}

// LocalAdd adds delta to a run-local counter and returns its new value.
func (inv *Invocation) LocalAdd(key string, delta int64) ([]byte, error) {
	return inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "local_add", Bytes: []replay.Blob{replay.Blob(key)}, Numbers: []int64{delta}}
	}, func() ([]byte, error) {
		sum, err := inv.Call.LocalAdd(key, delta)
		if err != nil {
			return nil, err
		}
		return abijson.Marshal(sum)
	})
}
