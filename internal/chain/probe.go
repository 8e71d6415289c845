package chain

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// A Probe is one call of one hook by itself, for tools of authors.
type Probe struct {
	Entry string
	Hook  abi.Hook
	// Input is a pointer to the hook's input of package abi, without its common
	// part, and Answer one to its answer, which is filled.
	Input, Answer any
	// Lists are the lists of messages that the hook can read; nil for none.
	Lists [2]*message.List
	// Shown is called with the list that the input stands for.
	Shown func(n int, l abi.List)
	// Next answers next.
	Next func(ctx context.Context, patch any) (any, error)
}

// Probe calls a hook, and applies nothing of its answer but the writes to
// run-local values. The error is an *abi.Error if the hook failed, an ending,
// or what it faulted with.
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
