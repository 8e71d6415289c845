package wasm

// flow is how control goes through one body: what there is to charge, and where
// a charge can be put.
type flow struct {
	nodes   []node
	edges   []edge
	labels  []int32  // node of each label, outside for the function's own
	direct  []direct // jumps to write as direct ones, in the body's order
	size    int      // fuel of all that can be reached
	calls   bool     // it calls functions of the module or the host
	loops   bool     // it has loops that turn
	selects bool     // it has select
	looks   int      // nodes that look at the fuel because it was not done for long
	// leaves says that a branch, other than return, leaves the function.
	leaves bool
	// lead is the head of the loop that the body runs straight into, or
	// outside. It can look after the counters for the function's entry too.
	lead int32
}

// node is a stretch of a body that, traps aside, runs as a whole once begun.
type node struct {
	at    int   // offset in the body where it begins, and its charge goes
	cost  int   // fuel of its instructions
	leaf  int   // the most that small leaves can take which it calls
	since int   // fuel since the last look at what is left, on the longest way to the node
	edges int   // where its edges begin
	group int32 // of nodes that are owed the same; see find
	owed  int   // for a group: what its nodes can rely on having been charged
	head  bool  // of a loop that turns: has to look whether fuel is left
	looks bool  // has to look because it has not been done for long; see look.go
	traps bool  // ends in a trap
	// first says that the node nearly always goes on to its first edge.
	first bool
	// blind says that something goes to this dispatch with a value that
	// cannot be told.
	blind bool
}

// edge leads from a node to a label. If by is not outside, it does so by way of
// that node, a dispatch, which must do nothing but go on to the label.
type edge struct{ label, by int32 }

// outside stands for what is no node of the body.
const outside = -1

// scope is a block that is open while a body is read.
type scope struct {
	op     Opcode
	label  int32 // its head if it is a loop, otherwise its end
	orElse int32 // label of the other arm of an if
	used   bool  // something branches to the label
	dead   bool  // the block is never entered
	sets   int   // how often a local is set in it, or a call may set a global
	// dispatch is that of a loop, or of the loop that a block belongs to.
	dispatch *dispatch
}

// planner reads bodies. cur is the node that instructions are counted in, or
// outside where none can be reached.
type planner struct {
	flow
	code      *Code
	locals    int // with parameters
	globals   int // that are mutable
	leaf      int // the size of functions that do not look at the fuel
	scopes    []scope
	cur       int32
	jump      jump
	straight  bool      // nothing but straight code so far
	afterCall bool      // nothing but moves since a call
	dispatch  *dispatch // the last one
}

// read makes the flow of a body that has so many parameters. Its memory is used
// again by the next one.
func (p *planner) read(c *Code, parameters int) {
	p.flow = flow{nodes: p.nodes[:0], edges: p.edges[:0], labels: p.labels[:0], direct: p.direct[:0], lead: outside}
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
	p.turns()
}

// begin begins a node at an offset.
func (p *planner) begin(at int) {
	p.cur = int32(len(p.nodes))
	p.nodes = append(p.nodes, node{at: at, group: p.cur, edges: len(p.edges)})
}

// beginAt begins the node that a label stands for.
func (p *planner) beginAt(label int32, at int) {
	p.begin(at)
	p.labels[label] = p.cur
}

func (p *planner) newLabel() int32 {
	p.labels = append(p.labels, outside)
	return int32(len(p.labels) - 1)
}

// to adds an edge to the node.
func (p *planner) to(label int32) {
	p.edges = append(p.edges, edge{label, outside})
}

// step reads an instruction.
func (p *planner) step(in *Instruction) {
	if p.cur != outside {
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
		p.cur = outside
	case OpBrIf:
		p.branchIf(in)
	case OpBrTable:
		p.table(in)
		p.cur = outside
	case OpReturn:
		p.cur = outside
	case OpUnreachable:
		if p.cur != outside {
			p.nodes[p.cur].traps = true
		}
		p.cur = outside
	case OpCall, OpCallIndirect:
		p.calls = true
		if p.cur != outside {
			p.nodes[p.cur].leaf += p.leaf
		}
	case opSelect, opSelectTyped:
		p.selects = true
	}
	p.remember(in)
	p.cut(in)
}

// remember keeps what the meaning of the next instructions depends on.
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

// count adds fuel to the node.
func (p *planner) count(fuel int) { p.countAt(p.cur, fuel) }

func (p *planner) countAt(node int32, fuel int) {
	p.nodes[node].cost += fuel
	p.size += fuel
}

// cost is the fuel of one instruction. What only marks structure is free.
func cost(op Opcode) int {
	switch op {
	case OpBlock, OpLoop, OpElse, OpEnd, OpNop:
		return 0
	}
	return 1
}

// open opens a scope with a label of its own.
func (p *planner) open(op Opcode) *scope {
	p.scopes = append(p.scopes, scope{op: op, label: p.newLabel(), dead: p.cur == outside})
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
		p.lead = p.cur
	}
}

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

func (p *planner) otherwise(in *Instruction) {
	s := &p.scopes[len(p.scopes)-1]
	s.op = OpElse
	if s.dead {
		return
	}
	if p.cur != outside {
		p.to(s.label)
		s.used = true
	}
	p.beginAt(s.orElse, in.End)
}

// end begins a new node behind a block, if control comes there from more than
// one place.
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
	if p.cur != outside {
		p.to(s.label)
	}
	p.beginAt(s.label, in.End)
	p.count(p.moves(s.sets))
	if s.op == OpIf {
		p.labels[s.orElse] = p.cur
	}
}

// target notes that control may go from here to a label, and returns it.
func (p *planner) target(label uint32) int32 {
	i := len(p.scopes) - 1 - int(label)
	s := &p.scopes[i]
	s.used = true
	p.leaves = p.leaves || i == 0
	return s.label
}

// blindly is target for a branch that may go to a dispatch with any value.
func (p *planner) blindly(label uint32) int32 {
	if s := &p.scopes[len(p.scopes)-1-int(label)]; s.op == OpLoop && s.dispatch != nil {
		p.nodes[s.dispatch.node].blind = true
	}
	return p.target(label)
}

// branch reads a br. One that goes on from a dispatch to a block that is still
// open is made a direct jump, and counts as both.
func (p *planner) branch(in *Instruction) {
	d, label := p.known(in)
	if d == nil {
		if p.cur != outside {
			p.to(p.blindly(in.X))
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
	case p.cur == outside:
		return
	case open:
		p.to(p.target(direct.label))
	default:
		p.edges = append(p.edges, edge{d.ends[d.blocks-1-label], d.node})
	}
	p.count(dispatchCost)
}

func (p *planner) branchIf(in *Instruction) {
	if p.cur == outside {
		return
	}
	// What a call says right away is seldom that all is lost.
	p.nodes[p.cur].first = p.afterCall
	next := p.newLabel()
	p.to(next)
	p.to(p.blindly(in.X))
	p.beginAt(next, in.End)
}

func (p *planner) table(in *Instruction) {
	if p.cur == outside {
		return
	}
	// The code that a dispatch has for 0 is where a function begins.
	p.nodes[p.cur].first = p.dispatch != nil && p.dispatch.node == p.cur
	last := int32(outside)
	in.Labels(func(label uint32) {
		if l := p.blindly(label); l != last {
			p.to(l)
			last = l
		}
	})
}

// turns gives each edge its node, and finds the loops that something goes back
// to.
func (p *planner) turns() {
	for i := range p.nodes {
		for j := range p.successors(i) {
			e := &p.successors(i)[j]
			e.label = p.labels[e.label]
			if e.by != outside {
				p.nodes[e.by].head = true
				if p.nodes[e.by].blind {
					e.label = e.by
					p.nodes[i].cost -= dispatchCost // the dispatch has it
				}
			}
			if e.label != outside && e.label <= int32(i) {
				p.nodes[e.label].head = true
			}
		}
	}
	for i := range p.nodes {
		p.loops = p.loops || p.nodes[i].head
	}
	if p.lead != outside && !p.nodes[p.lead].head {
		p.lead = outside
	}
}

// successors are the edges of a node.
func (f *flow) successors(i int) []edge {
	end := len(f.edges)
	if i+1 < len(f.nodes) {
		end = f.nodes[i+1].edges
	}
	return f.edges[f.nodes[i].edges:end]
}
