// Package inproc runs middlewares written in Go in the host's process, with all rights of the
// process. Package host/native has the functions that construct them.
package inproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Describe returns n.Description with the hooks whose functions are set. The inputs of these hooks
// contain no messages, since Go code reads them with [hook.Call.List].
func (n *Middleware) Describe() hook.Description {
	d := n.Description
	d.Messages = contract.MessagesLazy
	d.Hooks = n.hooks()
	return hook.Description{Description: d}
}

// Open returns a session that counts calls.
func (n *Middleware) Open(context.Context, string, string) (hook.Session, error) {
	return &nativeSession{n: n, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}, nil
}

type nativeSession struct {
	n     *Middleware
	mu    sync.Mutex
	stats abi.EntryStats
}

func (s *nativeSession) Close() {}

func (s *nativeSession) Stats() abi.EntryStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hook.CloneStats(&s.stats)
}

// Call runs the function of a hook. A panic becomes an [*ending.FaultError], and an error that does not
// end or pause the run becomes an [*abi.Error].
func (s *nativeSession) Call(ctx context.Context, c *hook.Call, in, out any) (err error) {
	began := time.Now()
	defer func() {
		if v := recover(); v != nil {
			err = &ending.FaultError{Stage: ending.StageHook, Cause: fmt.Errorf("panic: %v", v), Stack: string(debug.Stack())}
		}
		_, faulted := errors.AsType[*ending.FaultError](err)
		s.mu.Lock()
		defer s.mu.Unlock()
		hook.CountCall(&s.stats, c.Hook, time.Since(began)-hook.ControlOf(c).Waited(), faulted)
	}()
	err = s.n.dispatch(ctx, c, in, out)
	if err != nil && !ending.Is(err) {
		return ending.AsError(err, abi.CodeInternal)
	}
	return err
}

// answer calls the function of a hook with its input and stores the answer in out.
func answer[I, O any](
	call func(context.Context, *hook.Call, *I) (*O, error),
	ctx context.Context,
	c *hook.Call,
	in, out any,
) error {
	input, ok := in.(*I)
	if !ok {
		return fmt.Errorf("%s does not take %T", c.Hook, in)
	}
	res, err := call(ctx, c, input)
	if o, ok := out.(*O); ok && res != nil {
		*o = *res
	}
	return err
}
