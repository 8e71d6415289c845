package invoke

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// stored answers a host call for durable values by calling do. It returns an error if the entry
// does not have the grant "store". The function q returns a description of the call, as in Ask. The
// time in which do waits for the database does not count as the guest's time.
func (inv *Invocation) stored(q func() replay.HostCall, do func() ([]byte, error)) ([]byte, error) {
	return inv.Ask(q, func() (reply []byte, err error) {
		if !inv.Grants.Store {
			return nil, notGranted("store")
		}
		defer inv.syncClock()
		inv.wait(func() { reply, err = do() })
		return reply, err
	})
}

// StoreGet returns a durable value and its version as JSON. The reply is empty if the value does
// not exist.
func (inv *Invocation) StoreGet(ctx context.Context, key string) ([]byte, error) {
	return inv.stored(func() replay.HostCall {
		return replay.HostCall{Name: "store_get", Bytes: []replay.Blob{replay.Blob(key)}}
	}, func() ([]byte, error) {
		value, ok, err := inv.Call.StoreGet(ctx, key)
		if err != nil || !ok {
			return nil, err
		}
		return abijson.Marshal(value)
	})
}

// maxTTLSeconds is the longest time to live that a guest can pass. A store may have a lower
// maximum.
const maxTTLSeconds = 1 << 32

// StoreSet sets a durable value if its current version is version; see hook.Values. The value
// expires after ttl seconds, or never if ttl is 0. StoreSet returns the value's new version as
// JSON. It returns an error if ttl is negative or above maxTTLSeconds.
func (inv *Invocation) StoreSet(ctx context.Context, key string, value []byte, version, ttl int64) ([]byte, error) {
	return inv.stored(func() replay.HostCall {
		return replay.HostCall{
			Name:    "store_set",
			Bytes:   []replay.Blob{replay.Blob(key), value},
			Numbers: []int64{version, ttl},
		}
	}, func() ([]byte, error) {
		if ttl < 0 || ttl > maxTTLSeconds {
			return nil, &abi.Error{
				Code:    abi.CodeInvalid,
				Message: fmt.Sprintf("store_set: a time to live of %d seconds; want 0 for none, or more", ttl),
			}
		}
		now, err := inv.Call.StoreSet(ctx, key, value, version, time.Duration(ttl)*time.Second)
		if err != nil {
			return nil, err
		}
		return abijson.Marshal(contract.LocalVersion{Version: now})
	})
}

// StoreDelete deletes a durable value. The reply is empty.
func (inv *Invocation) StoreDelete(ctx context.Context, key string) ([]byte, error) {
	return inv.stored(func() replay.HostCall {
		return replay.HostCall{Name: "store_delete", Bytes: []replay.Blob{replay.Blob(key)}}
	}, func() ([]byte, error) {
		return nil, inv.Call.StoreDelete(ctx, key)
	})
}

// StoreAdd adds delta to a durable counter and returns its new value.
func (inv *Invocation) StoreAdd(ctx context.Context, key string, delta int64) ([]byte, error) {
	return inv.stored(func() replay.HostCall {
		return replay.HostCall{Name: "store_add", Bytes: []replay.Blob{replay.Blob(key)}, Numbers: []int64{delta}}
	}, func() ([]byte, error) {
		sum, err := inv.Call.StoreAdd(ctx, key, delta)
		if err != nil {
			return nil, err
		}
		return abijson.Marshal(sum)
	})
}
