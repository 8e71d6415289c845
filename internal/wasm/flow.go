package wasm

// flow is the control-flow graph of one body, with the fuel costs and the places for
// charges.
type flow struct {
	nodes  []node
	edges  []edge
	labels []int32  // node of each label; noNode for the label of the function itself
	direct []direct // jumps to replace with direct ones, in the order of the body
	size   int      // fuel of all reachable instructions
	calls  bool     // whether the body calls functions of the module or the host
	loops  bool     // whether the body has loops with a backward branch
	// miscompiled reports whether the body may contain an instruction that wazero miscompiles.
	miscompiled bool
	checks      int // number of nodes with an additional fuel check
	// leaves reports whether a branch other than return leaves the function.
	leaves bool
	// entryLoop is the head of the loop that the body enters unconditionally, or noNode.
	// Its fuel check can also serve as the check at the function's entry.
	entryLoop int32
}

// node is a basic block: apart from traps, it runs completely or not at all.
type node struct {
	at      int   // offset in the body where the node begins and its charge is inserted
	cost    int   // fuel of its instructions
	leaf    int   // maximum fuel of the small leaf functions that it calls
	since   int   // fuel since the last check, on the longest path to the node
	edges   int   // index of its first edge
	group   int32 // parent in the group of nodes with the same prepaid amount; see find
	prepaid int   // fuel charged before the nodes of the group; valid for the representative of a group
	head    bool  // whether the node is the head of a loop with a backward branch, and must check the fuel
	checks  bool  // whether the node must check the fuel because the last check is too long ago; see fuelcheck.go
	traps   bool  // whether the node ends in a trap
	// likelyFirst reports that the node nearly always continues at its first edge.
	likelyFirst bool
	// unresolved reports that a branch to this dispatch has an unknown value.
	unresolved bool
}

// edge leads from a node to a label. If by is not noNode, the edge goes through the dispatch at
// node by, whose choice is known. resolve redirects the edge to the dispatch itself if another
// branch reaches the dispatch with an unknown value.
type edge struct{ label, by int32 }

// noNode is the index of a target outside of the body.
const noNode = -1

// scope is an open block of the body that is being read.
type scope struct {
	op     Opcode
	label  int32 // the head of a loop, or the end of another block
	orElse int32 // label of the else arm of an if
	used   bool  // whether a branch targets the label
	dead   bool  // whether the block is unreachable
	sets   int   // number of assignments to locals and globals in the block, including those in calls
	// dispatch is the dispatch at the head of the loop. For a block that a dispatch can select, it
	// is that dispatch.
	dispatch *dispatch
}

// planner reads bodies. cur is the current node, or noNode in unreachable code.
type planner struct {
	flow
	code      *Code
	locals    int // number of locals, including parameters
	globals   int // number of mutable globals
	leaf      int // size of the largest function without a fuel check
	scopes    []scope
	cur       int32
	jump      jump
	straight  bool      // whether the body has no branch so far
	afterCall bool      // whether only moves followed the last call
	dispatch  *dispatch // the last dispatch
}

// read builds the flow of a body with the given number of parameters. It reuses the
// memory of the previous flow.
func (p *planner) read(c *Code, parameters int) {
	p.flow = flow{nodes: p.nodes[:0], edges: p.edges[:0], labels: p.labels[:0], direct: p.direct[:0], entryLoop: noNode}
	p.code, p.jump, p.dispatch = c, jump{}, nil
	p.straight, p.afterCall = true, false
	p.locals = parameters
	for _, g := range c.Locals {
		p.locals += int(g.Count)
	}
	p.begin(0)
	p.scopes = append(p.scopes[:0], scope{op: OpBlock, label: p.newLabel()})
	var in Instruction
	for it := c.Instructions(); it.Next(&in); {
		p.step(&in)
	}
	p.resolve()
}

// begin starts a node at an offset.
func (p *planner) begin(at int) {
	p.cur = int32(len(p.nodes))
	p.nodes = append(p.nodes, node{at: at, group: p.cur, edges: len(p.edges)})
}

// beginAt starts a node and sets it as the target of a label.
func (p *planner) beginAt(label int32, at int) {
	p.begin(at)
	p.labels[label] = p.cur
}

func (p *planner) newLabel() int32 {
	p.labels = append(p.labels, noNode)
	return int32(len(p.labels) - 1)
}

// to adds an edge from the last node to a label.
func (p *planner) to(label int32) {
	p.edges = append(p.edges, edge{label, noNode})
}

// step adds an instruction to the flow.
func (p *planner) step(in *Instruction) {
	if p.cur != noNode {
		p.count(cost(in.Op))
		p.sets(in.Op)
	}
	switch in.Op {
	case OpBlock:
		p.block()
	case OpLoop:
		p.loop(in)
	case OpIf:
		p.arm(in)
	case OpElse:
		p.otherwise(in)
	case OpEnd:
		p.end(in)
	case OpBr:
		p.branch(in)
		p.cur = noNode
	case OpBrIf:
		p.branchIf(in)
	case OpBrTable:
		p.table(in)
		p.cur = noNode
	case OpReturn:
		p.cur = noNode
	case OpUnreachable:
		if p.cur != noNode {
			p.nodes[p.cur].traps = true
		}
		p.cur = noNode
	case OpCall, OpCallIndirect:
		p.calls = true
		if p.cur != noNode {
			p.nodes[p.cur].leaf += p.leaf
		}
	case opSelect, opSelectTyped, opF32Copysign, opF64Copysign, opF32ConvertI64U, opF64ConvertI64U, opV128Bitselect:
		p.miscompiled = true
	}
	p.remember(in)
	p.cut(in)
}

// remember records the facts about an instruction that affect how step interprets the next ones.
func (p *planner) remember(in *Instruction) {
	p.jump.step(in)
	switch in.Op {
	case OpCall, OpCallIndirect:
		p.afterCall, p.straight = true, false
	case OpGlobalGet, OpLocalSet:
	case OpLoop, OpIf, OpBr, OpBrIf, OpBrTable, OpReturn, OpUnreachable, OpEnd:
		p.afterCall, p.straight = false, false
	default:
		p.afterCall = false
	}
}

// count adds fuel to the current node.
func (p *planner) count(fuel int) { p.countAt(p.cur, fuel) }

func (p *planner) countAt(node int32, fuel int) {
	p.nodes[node].cost += fuel
	p.size += fuel
}

// cost returns the fuel of one instruction. Structure markers and nop are free.
func cost(op Opcode) int {
	switch op {
	case OpBlock, OpLoop, OpElse, OpEnd, OpNop:
		return 0
	}
	return 1
}

// open opens a scope with a label of its own.
func (p *planner) open(op Opcode) *scope {
	p.scopes = append(p.scopes, scope{op: op, label: p.newLabel(), dead: p.cur == noNode})
	return &p.scopes[len(p.scopes)-1]
}

func (p *planner) block() {
	s := p.open(OpBlock)
	if d := p.dispatch; d != nil && len(d.ends) < d.blocks {
		s.dispatch = d
		d.ends = append(d.ends, s.label)
	}
}

func (p *planner) loop(in *Instruction) {
	s := p.open(OpLoop)
	s.dispatch = readDispatch(p.code, in)
	p.dispatch = s.dispatch
	if s.dead {
		return
	}
	p.to(s.label)
	p.beginAt(s.label, in.End)
	if s.dispatch != nil {
		s.dispatch.node = p.cur
	}
	if p.straight {
		p.entryLoop = p.cur
	}
}

// arm opens the scope of an if and starts the node of its first arm.
func (p *planner) arm(in *Instruction) {
	s := p.open(OpIf)
	if s.dead {
		return
	}
	then := p.newLabel()
	s.orElse = p.newLabel()
	p.to(then)
	p.to(s.orElse)
	p.beginAt(then, in.End)
}

// otherwise ends the first arm of an if and starts the node of the else arm.
func (p *planner) otherwise(in *Instruction) {
	s := &p.scopes[len(p.scopes)-1]
	s.op = OpElse
	if s.dead {
		return
	}
	if p.cur != noNode {
		p.to(s.label)
		s.used = true
	}
	p.beginAt(s.orElse, in.End)
}

// end closes the innermost scope. It starts a new node if another node can branch to the end of the
// scope.
func (p *planner) end(in *Instruction) {
	last := len(p.scopes) - 1
	s := p.scopes[last]
	p.scopes = p.scopes[:last]
	if last > 0 {
		p.scopes[last-1].sets += s.sets
	}
	switch {
	case last == 0 || s.dead:
		return
	case s.op == OpLoop:
		p.countAt(p.labels[s.label], p.moves(s.sets))
		return
	case !s.used && s.op != OpIf:
		return
	}
	if p.cur != noNode {
		p.to(s.label)
	}
	p.beginAt(s.label, in.End)
	p.count(p.moves(s.sets))
	if s.op == OpIf {
		p.labels[s.orElse] = p.cur
	}
}

// target marks the scope of a label as used and returns the label.
func (p *planner) target(label uint32) int32 {
	i := len(p.scopes) - 1 - int(label)
	s := &p.scopes[i]
	s.used = true
	p.leaves = p.leaves || i == 0
	return s.label
}

// unknownTarget is like target, but for a branch that may reach a dispatch with any value of its
// local. If the target is a dispatch, unknownTarget marks it as unresolved.
func (p *planner) unknownTarget(label uint32) int32 {
	if s := &p.scopes[len(p.scopes)-1-int(label)]; s.op == OpLoop && s.dispatch != nil {
		p.nodes[s.dispatch.node].unresolved = true
	}
	return p.target(label)
}

// branch reads a br. If the target is a dispatch that then selects a block that is still open, the
// br becomes a direct jump to that block. The direct jump costs as much fuel as the br and the
// dispatch.
func (p *planner) branch(in *Instruction) {
	d, label := p.known(in)
	if d == nil {
		if p.cur != noNode {
			p.to(p.unknownTarget(in.X))
		}
		return
	}
	at := len(p.scopes) - 1 - int(in.X) + d.blocks - label
	open := at < len(p.scopes) && p.scopes[at].dispatch == d
	direct := direct{in.Start, uint32(len(p.scopes) - 1 - at)}
	if open {
		p.direct = append(p.direct, direct)
	}
	switch {
	case p.cur == noNode:
		return
	case open:
		p.to(p.target(direct.label))
	default:
		p.edges = append(p.edges, edge{d.ends[d.blocks-1-label], d.node})
	}
	p.count(dispatchCost)
}

func (p *planner) branchIf(in *Instruction) {
	if p.cur == noNode {
		return
	}
	// A branch on the result of a call is rarely taken.
	p.nodes[p.cur].likelyFirst = p.afterCall
	next := p.newLabel()
	p.to(next)
	p.to(p.unknownTarget(in.X))
	p.beginAt(next, in.End)
}

func (p *planner) table(in *Instruction) {
	if p.cur == noNode {
		return
	}
	// When a function is entered, its dispatch selects the code for 0.
	p.nodes[p.cur].likelyFirst = p.dispatch != nil && p.dispatch.node == p.cur
	last := int32(noNode)
	in.Labels(func(label uint32) {
		if l := p.unknownTarget(label); l != last {
			p.to(l)
			last = l
		}
	})
}

// resolve replaces the labels of edges with nodes and finds loops with a backward branch.
func (p *planner) resolve() {
	for i := range p.nodes {
		for j := range p.successors(i) {
			e := &p.successors(i)[j]
			e.label = p.labels[e.label]
			if e.by != noNode {
				p.nodes[e.by].head = true
				if p.nodes[e.by].unresolved {
					e.label = e.by
					p.nodes[i].cost -= dispatchCost // the dispatch itself charges this
				}
			}
			if e.label != noNode && e.label <= int32(i) {
				p.nodes[e.label].head = true
			}
		}
	}
	for i := range p.nodes {
		p.loops = p.loops || p.nodes[i].head
	}
	if p.entryLoop != noNode && !p.nodes[p.entryLoop].head {
		p.entryLoop = noNode
	}
}

// successors returns the edges of node i.
func (f *flow) successors(i int) []edge {
	end := len(f.edges)
	if i+1 < len(f.nodes) {
		end = f.nodes[i+1].edges
	}
	return f.edges[f.nodes[i].edges:end]
}
