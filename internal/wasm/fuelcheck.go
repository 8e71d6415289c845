package wasm

import "fmt"

// Meter adds fuel checks within a body, in addition to those at its entry and at the
// heads of its loops.
//
// A body may have 256 KiB of straight-line code, in which every two bytes may call a
// small leaf function without a check: 4 million fuel, or 16,000 pages touched for the
// first time, without a place at which the host could stop it. Therefore Meter adds a
// check wherever the longest path since the last check uses too much fuel. The nodes with
// these checks are not prepaid; otherwise the work after a check would have been charged
// before it. Compiled code rarely has such long paths without a loop.
const (
	// maxUncheckedFuel is the maximum fuel between two checks. Calls count as if they
	// were calls of the largest leaf function.
	maxUncheckedFuel = 500
	// maxNodeFuel bounds the size of a node, so that there are enough places for checks.
	maxNodeFuel = maxUncheckedFuel / 2
	// maxChecks is the maximum number of additional checks in a body because of leaf
	// functions. Compiling a body of 120,000 calls with a check after every 15 took 18 s,
	// without checks 0.5 s.
	maxChecks = 100
	// maxHeldOperands is the maximum number of operands on the stack at fuel checks, over
	// all checks of a module. The compiler tracks each. wazero took 12 s for 40,000
	// operands in a body of 240 KB, and 3 s without the checks.
	maxHeldOperands = 2_000_000
)

// A merge is a join of paths through a body. The compiler moves each local whose value
// differs between the paths, although no instruction says so: an arm that sets 2,900
// locals costs a microsecond even if it is not taken. The same holds for globals in
// registers. Compiled code has few such moves.
const (
	freeMoves = 64 // number of free moves per merge
	fuelMoves = 16 // number of further moves per fuel
)

// moves returns the fuel of a merge after a block, or at a loop's head, with the given number of
// assignments.
func (p *planner) moves(sets int) int {
	return max(0, min(sets, p.locals+p.globals)-freeMoves) / fuelMoves
}

// sets counts the assignments of an instruction. A call counts as one of each global.
func (p *planner) sets(op Opcode) {
	s := &p.scopes[len(p.scopes)-1]
	switch op {
	case OpLocalSet, OpLocalTee, OpGlobalSet:
		s.sets++
	case OpCall, OpCallIndirect:
		s.sets += p.globals
	}
}

// cut starts a new node if the current one has at least maxNodeFuel fuel.
func (p *planner) cut(in *Instruction) {
	if p.cur == noNode {
		return
	}
	if n := &p.nodes[p.cur]; n.cost+n.leaf < maxNodeFuel {
		return
	}
	next := p.newLabel()
	p.to(next)
	p.beginAt(next, in.End)
}

// placeChecks finds the nodes that need an additional check. It ignores backward edges, because
// each of them leads to or through the head of a loop, which has a check.
func (p *planner) placeChecks() {
	for i := range p.nodes {
		n := &p.nodes[i]
		work := n.cost + n.leaf
		n.checks = !n.head && n.since > 0 && n.since+work > maxUncheckedFuel
		if n.checks {
			p.checks++
		}
		if n.head || n.checks {
			n.since = 0
		}
		for _, e := range p.successors(i) {
			if int(e.label) > i && e.by == noNode {
				next := &p.nodes[e.label]
				next.since = max(next.since, n.since+work)
			}
		}
	}
}

// hold adds the number of operands on the stack, at each fuel check of a body, to w.held.
func (w *rewriter) hold(c *Code, t FuncType) {
	p, x := &w.planner, &w.framer.operands
	x.begin(t, c)
	next := 1
	var in Instruction
	for it := c.Instructions(); it.Next(&in); x.step(&in) {
		for ; next < len(p.nodes) && p.nodes[next].at <= in.Start; next++ {
			if p.nodes[next].checks {
				w.held += len(x.stack)
			}
		}
	}
}

// checkHeld sets an error if too many operands are on the stack at the module's fuel checks.
func (w *rewriter) checkHeld() {
	if w.held > maxHeldOperands && w.err == nil {
		w.err = &Error{
			Kind: OverLimit, Section: "code", Function: -1, Thing: "operands", Value: uint64(w.held), Limit: maxHeldOperands,
			text: fmt.Sprintf(
				"%s operands are on the stack at fuel checks, more than the limit of %s for all functions; store intermediate results in locals",
				grouped(uint64(w.held)),
				grouped(maxHeldOperands),
			),
		}
	}
}
