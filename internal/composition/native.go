package composition

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// native runs the puppet of an entry as Go code in the host's process.
type native struct {
	entry  *Entry
	onHook func()
}

// Describe lists the hooks for which the entry has a script.
func (n native) Describe() hook.Description {
	d := hook.Description{Description: abi.Description{Messages: contract.MessagesLazy}}
	for h := range n.entry.Hooks {
		d.Hooks = append(d.Hooks, h)
	}
	return d
}

// Open returns n, because the puppet has no state.
func (n native) Open(context.Context, string, string) (hook.Session, error) { return n, nil }

// Stats returns empty statistics.
func (native) Stats() abi.EntryStats { return abi.EntryStats{} }

// Close does nothing.
func (native) Close() {}

// Call runs the puppet's script for the hook.
func (n native) Call(ctx context.Context, c *hook.Call, in, out any) error {
	if n.onHook != nil {
		n.onHook()
	}
	return puppet.Play(nativeHost{ctx, c}, c.Hook, n.entry.Hooks[c.Hook], in.(puppet.Input), out)
}

// A nativeHost implements [puppet.Host] for a hook call in the host's process.
type nativeHost struct {
	ctx  context.Context
	call *hook.Call
}

func (h nativeHost) Tell(name, text string) error {
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return h.call.Emit(name, data)
}

func (h nativeHost) Next(patch any) (any, error) { return hook.ControlOf(h.call).Next(h.ctx, patch) }

func (h nativeHost) Forward() (any, error) {
	if err := hook.ControlOf(h.call).NextStream(h.ctx, nil); err != nil {
		return nil, err
	}
	for {
		got, err := hook.ControlOf(h.call).Recv(h.ctx, 1<<20)
		switch {
		case err != nil:
			return nil, err
		case got.End != nil && got.End.Response != nil:
			return got.End.Response, nil
		case got.End != nil:
			return got.End.Result, nil
		}
		if err := h.call.Send(h.ctx, got.Chunks...); err != nil {
			return nil, err
		}
	}
}

func (h nativeHost) Messages(list int) ([]abi.Message, error) { return h.call.List(list).All(), nil }

func (h nativeHost) Get(key string) (text string, err error) {
	v, ok, err := h.call.LocalGet(key)
	if err == nil && ok {
		err = json.Unmarshal(v.Value, &text)
	}
	return text, err
}

func (h nativeHost) Set(key, value string) error {
	data, err := json.Marshal(value)
	if err == nil {
		_, err = h.call.LocalSet(key, data, abi.LocalAlways)
	}
	return err
}

func (h nativeHost) Add(key string) (int64, error) { return h.call.LocalAdd(key, 1) }

func (h nativeHost) Model(text string) (*abi.Response, error) {
	return h.call.Model(
		h.ctx,
		abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: []abi.Message{abi.User(text)}}},
	)
}

func (h nativeHost) Tool(name, arguments string) (*abi.Result, error) {
	return h.call.Tool(h.ctx, name, arguments)
}
