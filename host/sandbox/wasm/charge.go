package wasm

// Where fuel is charged.
//
// A body is cut into segments. A segment's cost is charged where it begins, and
// covers instructions that run if and only if that point is passed, traps
// aside, and at most once for each time it is passed. So a count is exactly the
// work, whatever path is taken, but for a trap in the middle of a segment, which
// counts as all of it.
//
// A new segment begins at the function's entry, at each loop's head, in each
// arm of an if, after a conditional branch, and after the end of a block that
// something inside may have left for a place further out. After the end of any
// other block the segment from before that block goes on: it is passed either
// way. That is what keeps Go's bodies, which are one loop around a br_table
// into hundreds of nested blocks, exact and cheap: one charge for each resume
// point, instead of the whole body at each turn of the loop.

// segment is a part of a body whose cost is charged at once.
type segment struct {
	at   int // offset in the body where the charge goes
	cost int
	head bool // of a loop: has to look whether fuel is left
}

// scope is a block that is open while a body is planned.
type scope struct {
	op       Opcode
	entry    int  // segment before the block
	exitTo   int  // outermost scope that a branch from inside goes to
	targeted bool // something branches to its end
	live     bool // the end of its first arm is reached
	dead     bool // the block is never entered
}

// plan is where and what a body is charged.
type plan struct {
	segments []segment
	calls    bool // it calls functions of the module or the host
	loops    bool
	// lead says that the body runs straight into a loop, whose head can look
	// after the fuel for the function's entry as well.
	lead bool
}

// planner cuts one body into segments. cur is the segment that instructions
// are counted in, or -1 where none can be reached.
type planner struct {
	plan
	scopes []scope
	cur    int
}

// planBody reads a body. Its memory is used again by the next one.
func (p *planner) planBody(c *Code) {
	p.plan = plan{segments: p.segments[:0]}
	straight := true
	p.open(0)
	p.scopes = append(p.scopes[:0], scope{op: OpBlock, entry: -1})
	var in Instruction
	for it := c.Instructions(); it.Next(&in); {
		switch in.Op {
		case OpLoop:
			p.lead = p.lead || straight
			straight = false
		case OpIf, OpBr, OpBrIf, OpBrTable, OpReturn, OpUnreachable, OpCall, OpCallIndirect, OpEnd:
			straight = false
		}
		p.step(&in)
	}
}

// open begins a segment at an offset.
func (p *planner) open(at int) {
	p.segments = append(p.segments, segment{at: at})
	p.cur = len(p.segments) - 1
}

func (p *planner) step(in *Instruction) {
	if p.cur >= 0 {
		p.segments[p.cur].cost += cost(in.Op)
	}
	switch in.Op {
	case OpBlock, OpIf, OpLoop:
		p.enter(in)
	case OpElse:
		p.otherwise(in)
	case OpEnd:
		p.leave(in)
	case OpBr:
		p.branch(in.X)
		p.cur = -1
	case OpBrIf:
		p.branch(in.X)
		p.conditional(in)
	case OpBrTable:
		in.Labels(p.branch)
		p.cur = -1
	case OpReturn:
		p.branch(uint32(len(p.scopes) - 1))
		p.cur = -1
	case OpUnreachable:
		p.cur = -1
	case OpCall, OpCallIndirect:
		p.calls = true
	}
}

// cost is the fuel of one instruction. What only marks structure is free.
func cost(op Opcode) int {
	switch op {
	case OpBlock, OpLoop, OpElse, OpEnd, OpNop:
		return 0
	}
	return 1
}

func (p *planner) enter(in *Instruction) {
	depth := len(p.scopes)
	p.scopes = append(p.scopes, scope{op: in.Op, entry: p.cur, exitTo: depth, dead: p.cur < 0})
	if p.cur < 0 {
		return
	}
	switch in.Op {
	case OpIf:
		p.open(in.End)
	case OpLoop:
		p.loops = true
		p.open(in.End)
		p.segments[p.cur].head = true
	}
}

func (p *planner) otherwise(in *Instruction) {
	s := &p.scopes[len(p.scopes)-1]
	s.op = OpElse
	s.live = p.cur >= 0
	if !s.dead {
		p.open(in.End)
	}
}

func (p *planner) leave(in *Instruction) {
	depth := len(p.scopes) - 1
	s := p.scopes[depth]
	p.scopes = p.scopes[:depth]
	if depth == 0 {
		return
	}
	if outer := &p.scopes[depth-1]; s.exitTo < outer.exitTo {
		outer.exitTo = s.exitTo
	}
	switch {
	case s.dead:
		p.cur = -1
	case p.cur < 0 && !s.live && !s.targeted && s.op != OpIf:
		// Nothing comes to the end of this block.
	case s.exitTo < depth:
		p.open(in.End)
	default:
		p.cur = s.entry
	}
}

// branch notes that control may go to a label.
func (p *planner) branch(label uint32) {
	if p.cur < 0 {
		return
	}
	target := len(p.scopes) - 1 - int(label)
	if s := &p.scopes[target]; s.op != OpLoop {
		s.targeted = true
	}
	if top := &p.scopes[len(p.scopes)-1]; target < top.exitTo {
		top.exitTo = target
	}
}

func (p *planner) conditional(in *Instruction) {
	if p.cur >= 0 {
		p.open(in.End)
	}
}
