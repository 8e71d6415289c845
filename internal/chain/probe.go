package chain

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// A Probe is a single call of one hook, for the tools of module authors.
type Probe struct {
	Entry string
	Hook  abi.Hook
	// Input points to the hook's input of package abi. The call sets the input's common part.
	// Answer points to the hook's answer, which the call sets.
	Input, Answer any
	// Lists has the lists of messages that the hook can read. A nil element is no list.
	Lists [2]*message.List
	// Shown, if not nil, is called for each list with its index in Lists and its description in the
	// input.
	Shown func(n int, l abi.List)
	// Next answers the hook's calls of next. If it is nil, they fail.
	Next func(ctx context.Context, patch any) (any, error)
}

// Probe calls a hook, and applies only the hook's writes to run-local values. The error is an
// *abi.Error if the hook failed, the cause of a fault, or an error that ends or pauses the run.
// Probe also returns an error if the run has no such entry or the entry does not have the hook.
func (r *Run) Probe(ctx context.Context, p *Probe) error {
	m := r.find(p.Entry)
	if m == nil || !m.Has(p.Hook) {
		return fmt.Errorf("entry %q has no hook %s", p.Entry, p.Hook)
	}
	c := r.Call(m, p.Hook, p.Lists[:]...)
	c.Serve(p.Next, nil, nil)
	for n, l := range p.Lists {
		if l != nil && p.Shown != nil {
			p.Shown(n, c.View(n))
		}
	}
	return c.Probe(ctx, p.Input, p.Answer)
}
