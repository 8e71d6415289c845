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

// OwnCalls manages the memory for calls that a run's middlewares make through the imports "model"
// and "tool". During such a call, the caller's instance waits, and the hooks of the call need
// instances of their own. Their memory comes from the run's reservation first, and then from free
// memory. A call never waits for memory, because its caller occupies memory for which others may
// wait.
type OwnCalls struct {
	loader   *Loader
	run      []Placed
	parallel int   // maximum number of parallel tool calls of the run
	size     int64 // bytes reserved for each call

	mu       sync.Mutex
	reserved int              // number of calls for which memory is reserved and not in use; guarded by mu
	under    map[hook.Own]int // number of calls in progress, by kind; guarded by mu
}

// granted returns the maximum memory, in bytes, of one model or tool call that the grants of any
// entry allow. It returns 0 if no entry has such a grant.
func (o *OwnCalls) granted() (bytes int64) {
	for _, p := range o.run {
		if p.grants.Model {
			bytes = max(bytes, o.bytes(hook.OwnModel))
		}
		if len(p.grants.Tools) > 0 {
			bytes = max(bytes, o.bytes(hook.OwnTool))
		}
	}
	return bytes
}

// bytes returns the maximum memory, in bytes, that one call of the given kind needs.
func (o *OwnCalls) bytes(of hook.Own) (bytes int64) {
	for _, p := range o.run {
		bytes += int64(p.within(of)) * p.worstCase()
	}
	return bytes
}

// within returns the maximum number of instances of the entry that one call of the given kind by a
// middleware uses at once.
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

// ownCallsKey is the context key of a run's OwnCalls.
type ownCallsKey struct{}

// beyond reserves memory for one instance of mw if the run's reservation does not include it. The
// argument has is the number of instances of mw in use, including this one. The reservation
// includes the instances for all current hooks; beyond is a safeguard for hooks that are added
// later. The result release ends the reservation. It is nil if no memory was reserved.
func (o *OwnCalls) beyond(ctx context.Context, mw *Middleware, has int) (release func(), err error) {
	if o == nil {
		return nil, nil // the run reserved no memory
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.run {
		if p.Middleware != mw {
			continue
		}
		if has <= p.instances(o.parallel)+o.under[hook.OwnModel]*p.within(hook.OwnModel)+o.under[hook.OwnTool]*p.within(
			hook.OwnTool,
		) {
			return nil, nil
		}
		return o.loader.sandbox.Reserve(sandbox.WithReservation(ctx), mw.worstCase())
	}
	return nil, nil
}

// Take reserves the memory for one call of the given kind by a middleware. The result release ends
// the reservation. The error is an *abi.Error. Its code is [abi.CodeLimit] if an entry's limit
// "instances" is too low or if that much memory can never be free. Its code is
// [abi.CodeUnavailable] if the memory is not free now.
func (o *OwnCalls) Take(ctx context.Context, of hook.Own) (release func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.run {
		n := p.within(of)
		has := p.instances(o.parallel) + o.under[hook.OwnModel]*p.within(hook.OwnModel) + o.under[hook.OwnTool]*p.within(
			hook.OwnTool,
		)
		if limit := p.module.limits.Instances; n > 0 && has+n > limit {
			return nil, &abi.Error{
				Code: abi.CodeLimit,
				Message: fmt.Sprintf(
					"%s: %s may have %d instances in a run, and the call might need more; raise its limit instances",
					of,
					p.entry,
					limit,
				),
			}
		}
	}
	bytes := o.bytes(of)
	free := func() {}
	reserved := o.reserved > 0 && bytes <= o.size
	switch {
	case bytes == 0:
		reserved = false
	case reserved:
		o.reserved--
	default:
		if free, err = o.loader.sandbox.Reserve(sandbox.WithReservation(ctx), bytes); err != nil {
			return nil, ownCallError(of, err)
		}
	}
	o.under[of]++
	return sync.OnceFunc(func() {
		free()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.under[of]--
		if reserved {
			o.reserved++
		}
	}), nil
}

func ownCallError(of hook.Own, err error) *abi.Error {
	var never *sandbox.TooLargeError
	if errors.As(err, &never) {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: the call %v", of, err)}
	}
	return &abi.Error{Code: abi.CodeUnavailable, Retryable: true, Message: fmt.Sprintf("%s: the call %v", of, err)}
}
