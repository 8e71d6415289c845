package module

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A Room is the memory for calls that middlewares of a run make of their own,
// through the imports model and tool: the instances of the hooks that such a
// call passes, while the one that called waits. What was reserved with the run
// is used first, then what is free; nobody waits for it, since whoever calls
// holds memory.
type Room struct {
	loader   *Loader
	run      []Placed
	parallel int   // tool calls of the run at once
	size     int64 // of one reserved place, bytes

	mu       sync.Mutex
	reserved int              // places that are free; guarded by mu
	under    map[hook.Own]int // calls under way; guarded by mu
}

// granted is the most that one call may need of those that the entries have
// grants for, in bytes.
func (r *Room) granted() (bytes int64) {
	for _, p := range r.run {
		if p.grants.Model {
			bytes = max(bytes, r.bytes(hook.OwnModel))
		}
		if len(p.grants.Tools) > 0 {
			bytes = max(bytes, r.bytes(hook.OwnTool))
		}
	}
	return bytes
}

func (r *Room) bytes(of hook.Own) (bytes int64) {
	for _, p := range r.run {
		bytes += int64(p.within(of)) * p.worstCase()
	}
	return bytes
}

// within is how many instances of the entry one such call has at once at most.
func (p Placed) within(of hook.Own) int {
	switch {
	case of == hook.OwnTool:
		return p.inToolCall()
	case p.Ring == hook.Tenant:
		return 0
	default:
		return p.inModelCall()
	}
}

// roomKey is the context key of the room of a run.
type roomKey struct{}

// beyond takes the memory of an instance, if a session has more than were counted
// on when its run was admitted. That they are never more is arithmetic, which
// hooks to come may make wrong; then there is no run that holds what it did not
// reserve. It returns nil if nothing is to be given back.
func (r *Room) beyond(ctx context.Context, mw *Middleware, has int) (release func(), err error) {
	if r == nil {
		return nil, nil // nothing was reserved for anybody
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.run {
		if p.Middleware != mw {
			continue
		}
		if has <= p.instances(r.parallel)+r.under[hook.OwnModel]*p.within(hook.OwnModel)+r.under[hook.OwnTool]*p.within(hook.OwnTool) {
			return nil, nil
		}
		return r.loader.sandbox.Reserve(sandbox.WithReservation(ctx), mw.worstCase())
	}
	return nil, nil
}

// Take takes what one call needs, until release. The error is an *abi.Error:
// limit if an entry may not have so many instances, or there never is so much
// memory, and unavailable if it is not free now.
func (r *Room) Take(ctx context.Context, of hook.Own) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.run {
		n := p.within(of)
		has := p.instances(r.parallel) + r.under[hook.OwnModel]*p.within(hook.OwnModel) + r.under[hook.OwnTool]*p.within(hook.OwnTool)
		if most := p.module.limits.Instances; n > 0 && has+n > most {
			return nil, &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: %s may have %d instances in a run, and the call might need more; raise its limit instances", of, p.entry, most)}
		}
	}
	bytes := r.bytes(of)
	free := func() {}
	place := r.reserved > 0 && bytes <= r.size
	switch {
	case bytes == 0:
		place = false
	case place:
		r.reserved--
	default:
		if free, err = r.loader.sandbox.Reserve(sandbox.WithReservation(ctx), bytes); err != nil {
			return nil, noRoom(of, err)
		}
	}
	r.under[of]++
	return sync.OnceFunc(func() {
		free()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.under[of]--
		if place {
			r.reserved++
		}
	}), nil
}

func noRoom(of hook.Own, err error) *abi.Error {
	var never *sandbox.TooLargeError
	if errors.As(err, &never) {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: the call %v", of, err)}
	}
	return &abi.Error{Code: abi.CodeUnavailable, Retryable: true, Message: fmt.Sprintf("%s: the call %v", of, err)}
}
