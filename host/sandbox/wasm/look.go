package wasm

import "fmt"

// Where fuel is looked at within a body, besides its beginning and the heads of its
// loops.
//
// A body may have 256 KiB of straight code, and each two bytes of it may call a small
// leaf, which is not looked at itself: 4 million fuel, or 16,000 pages that are
// touched for the first time, without a place where the host could stop it. So fuel
// is looked at again wherever the longest way there has taken that much since it was
// looked at last. Nothing is owed there, or what follows would have been paid for
// when it is looked at. Code of compilers seldom comes so far without a loop's head.
const (
	// mostUnseen is the most fuel between two looks, calls counted as if they were
	// those of the largest leaf.
	mostUnseen = 500
	// mostNode bounds a node, so that there are enough places to look at it.
	mostNode = mostUnseen / 2
	// mostLooks is how many looks a body may need for the sake of leaves. Compiling a
	// body of 120,000 calls with a look between each 15 took 18 s, without 0.5 s.
	mostLooks = 100
	// mostHeld is how many operands may lie on the stack while the fuel is looked at,
	// all looks of a module together: a compiler keeps track of each. 40,000 operands
	// in a body of 240 KB took wazero 12 s, and without looks 3 s.
	mostHeld = 2_000_000
)

// A merge is where ways through a body meet. A compiler moves each local there that
// is another value on one way than on the other, which is no instruction: an arm that
// sets 2,900 locals costs a microsecond where it is not taken. The same goes for
// globals that are kept in registers between calls. What compilers write moves few.
const (
	freeMoves = 64 // cost nothing
	fuelMoves = 16 // of the rest cost one fuel
)

// moves is the fuel of a merge behind, or at the head of, what sets locals so often.
func (p *planner) moves(sets int) int {
	return max(0, min(sets, p.locals+p.globals)-freeMoves) / fuelMoves
}

// sets counts what an instruction may set.
func (p *planner) sets(op Opcode) {
	s := &p.scopes[len(p.scopes)-1]
	switch op {
	case OpLocalSet, OpLocalTee, OpGlobalSet:
		s.sets++
	case OpCall, OpCallIndirect:
		s.sets += p.globals
	}
}

// cut begins another node if this one has become large.
func (p *planner) cut(in *Instruction) {
	if p.cur == outside {
		return
	}
	if n := &p.nodes[p.cur]; n.cost+n.leaf < mostNode {
		return
	}
	next := p.newLabel()
	p.to(next)
	p.beginAt(next, in.End)
}

// look finds the nodes that have to look whether fuel is left. Edges that go back go
// to the head of a loop, or by way of one, which does.
func (p *planner) look() {
	for i := range p.nodes {
		n := &p.nodes[i]
		work := n.cost + n.leaf
		n.looks = !n.head && n.since > 0 && n.since+work > mostUnseen
		if n.looks {
			p.looks++
		}
		if n.head || n.looks {
			n.since = 0
		}
		for _, e := range p.successors(i) {
			if int(e.label) > i && e.by == outside {
				next := &p.nodes[e.label]
				next.since = max(next.since, n.since+work)
			}
		}
	}
}

// hold adds the operands that lie on the stack at the looks of a body.
func (w *rewriter) hold(c *Code, t FuncType) {
	p, x := &w.planner, &w.framer.operands
	x.begin(t, c)
	next := 1
	var in Instruction
	for it := c.Instructions(); it.Next(&in); x.step(&in) {
		for ; next < len(p.nodes) && p.nodes[next].at <= in.Start; next++ {
			if p.nodes[next].looks {
				w.held += len(x.stack)
			}
		}
	}
}

// holdsTooMany refuses the module if those of all bodies are too many.
func (w *rewriter) holdsTooMany() {
	if w.held > mostHeld && w.err == nil {
		w.err = &Error{
			Kind: OverLimit, Section: "code", Function: -1, Thing: "operands", Value: uint64(w.held), Limit: mostHeld,
			text: fmt.Sprintf("%s operands are kept over straight code, more than the limit of %s for all functions; store what is needed later", grouped(uint64(w.held)), grouped(mostHeld)),
		}
	}
}
