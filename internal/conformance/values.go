package conformance

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// durable stores durable values in memory for all runs of a case. It ignores expiry, which the
// tests of stores cover.
type durable struct {
	mu       sync.Mutex
	values   map[string]contract.LocalValue // the values, by entry and key
	versions int64
}

func (d *durable) GetValue(_ context.Context, s hook.ValueScope, key string) (contract.LocalValue, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.values[s.Entry+"\x00"+key]
	return v, ok, nil
}

func (d *durable) SetValue(
	_ context.Context,
	s hook.ValueScope,
	key string,
	value json.RawMessage,
	version int64,
	_ time.Duration,
) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if version != abi.LocalAlways && version != d.values[s.Entry+"\x00"+key].Version {
		return 0, &abi.Error{Code: abi.CodeConflict, Message: "the durable value has changed", Retryable: true}
	}
	return d.set(s, key, value), nil
}

func (d *durable) set(s hook.ValueScope, key string, value json.RawMessage) int64 {
	if d.values == nil {
		d.values = map[string]contract.LocalValue{}
	}
	d.versions++
	d.values[s.Entry+"\x00"+key] = contract.LocalValue{Value: append(json.RawMessage(nil), value...), Version: d.versions}
	return d.versions
}

func (d *durable) DeleteValue(_ context.Context, s hook.ValueScope, key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.values, s.Entry+"\x00"+key)
	return nil
}

func (d *durable) AddValue(_ context.Context, s hook.ValueScope, key string, delta int64) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var n int64
	if v, ok := d.values[s.Entry+"\x00"+key]; ok {
		if err := json.Unmarshal(v.Value, &n); err != nil {
			return 0, &abi.Error{Code: abi.CodeInvalid, Message: "the durable value is no integer"}
		}
	}
	n += delta
	d.set(s, key, strconv.AppendInt(nil, n, 10))
	return n, nil
}
