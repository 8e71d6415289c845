package module

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// Replay repeats the calls of a bundle and compares their outcomes with the recording. It returns
// an error if the module cannot be loaded or configured, if the bundle's grants are invalid, or if
// ctx is done.
func (l *Loader) Replay(ctx context.Context, b *replay.Bundle) (*replay.Result, error) {
	m, err := l.LoadBytes(ctx, b.Module, b.Wasm, replay.LimitsOf(b))
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer m.Close()
	grants, err := policy.ParseGrants(b.Grants)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	mw, err := Configure(ctx, m, b.Entry, []byte(b.Config), grants)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer mw.Close()
	s := &session{mw: mw, entry: b.Entry, run: b.Run, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
	defer s.Close()
	out := &replay.Result{Incomplete: replay.Incomplete(b)}
	for i := range b.Earlier {
		inv, err := s.replay(ctx, &b.Earlier[i])
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, d := range b.Earlier[i].Compare(outcomeOf(inv, err)) {
			out.Differences = append(out.Differences,
				fmt.Sprintf("call %d of %d before it, of %s: %s", i+1, len(b.Earlier), inv.Hook, d))
		}
	}
	inv, err := s.replay(ctx, &b.Call)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out.Fuel, out.Calls = inv.Report.Fuel, inv.Replay.Calls
	out.Differences = append(out.Differences, replay.Compare(b, outcomeOf(inv, err))...)
	var fault *ending.FaultError
	switch {
	case errors.As(err, &fault):
		out.Cause = ending.FaultText(fault)
	case b.Fault.Judged, replay.AnsweredLate(b, err):
		// The chain rejected the recorded answer. If the module's answer is now another,
		// out.Differences contains the difference.
		out.Cause = b.Fault.Cause
	}
	out.Same = len(out.Differences) == 0
	return out, nil
}

// replay repeats a recorded call in an instance of the session.
func (s *session) replay(ctx context.Context, recorded *replay.Recording) (*invoke.Invocation, error) {
	m := s.mw.module
	inv := &invoke.Invocation{
		Hook:     recorded.Hook,
		Limits:   &m.limits,
		Config:   s.mw.config,
		LogFunc:  func(int32, string) {},
		Readable: m.readable,
		Input:    recorded.Input,
		Pending:  recorded.Input,
		Seed:     recorded.Seed,
		Replay:   &replay.Player{Recording: recorded},
	}
	_, answer := contract.Exchange(recorded.Hook)
	if answer == nil || !slices.Contains(calledHooks(), recorded.Hook) {
		return inv, fmt.Errorf("%.64q is not a hook that runs call", recorded.Hook)
	}
	if err := m.checkInput(inv); err != nil {
		return inv, err
	}
	return inv, s.serve(ctx, inv, answer)
}

func outcomeOf(inv *invoke.Invocation, err error) *replay.Outcome {
	return &replay.Outcome{Fuel: inv.Report.Fuel, Output: inv.Output, Calls: inv.Replay.Calls, Err: err}
}
