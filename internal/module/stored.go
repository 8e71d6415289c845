package module

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func nativeStoreGet(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := v.storeGet(ctx, key)
	g.Tick()
	return reply, err
}

func nativeStoreSet(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := v.storeSet(ctx, key, v.take(g, "store_set", u32(p[2]), u32(p[3])), int64(p[4]), int64(p[5]))
	g.Tick()
	return reply, err
}

func nativeStoreDelete(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := v.storeDelete(ctx, key)
	g.Tick()
	return reply, err
}

func nativeStoreAdd(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := v.storeAdd(ctx, key, int64(p[2]))
	g.Tick()
	return reply, err
}

// stored makes a call of the durable values, if the entry may. The guest waits
// for the database, which is not its time.
func (v *visit) stored(q func() HostCall, do func() ([]byte, error)) ([]byte, error) {
	return v.ask(q, func() (reply []byte, err error) {
		if !v.grants.Store {
			return nil, notGranted("store")
		}
		defer v.look()
		v.wait(func() { reply, err = do() })
		return reply, err
	})
}

func (v *visit) storeGet(ctx context.Context, key string) ([]byte, error) {
	return v.stored(func() HostCall { return HostCall{Name: "store_get", Bytes: []Blob{Blob(key)}} }, func() ([]byte, error) {
		value, ok, err := v.call.StoreGet(ctx, key)
		if err != nil || !ok {
			return nil, err
		}
		return abi.Marshal(value)
	})
}

// maxTTLSeconds is the longest time to live that a guest can name; stores may
// have a shorter one.
const maxTTLSeconds = 1 << 32

func (v *visit) storeSet(ctx context.Context, key string, value []byte, version, ttl int64) ([]byte, error) {
	return v.stored(func() HostCall {
		return HostCall{Name: "store_set", Bytes: []Blob{Blob(key), value}, Numbers: []int64{version, ttl}}
	}, func() ([]byte, error) {
		if ttl < 0 || ttl > maxTTLSeconds {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("store_set: a time to live of %d seconds; want 0 for none, or more", ttl)}
		}
		now, err := v.call.StoreSet(ctx, key, value, version, time.Duration(ttl)*time.Second)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(abi.LocalVersion{Version: now})
	})
}

func (v *visit) storeDelete(ctx context.Context, key string) ([]byte, error) {
	return v.stored(func() HostCall { return HostCall{Name: "store_delete", Bytes: []Blob{Blob(key)}} }, func() ([]byte, error) {
		return nil, v.call.StoreDelete(ctx, key)
	})
}

func (v *visit) storeAdd(ctx context.Context, key string, delta int64) ([]byte, error) {
	return v.stored(func() HostCall { return HostCall{Name: "store_add", Bytes: []Blob{Blob(key)}, Numbers: []int64{delta}} }, func() ([]byte, error) {
		sum, err := v.call.StoreAdd(ctx, key, delta)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(sum)
	})
}
