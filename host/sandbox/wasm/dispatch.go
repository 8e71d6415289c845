package wasm

// A dispatch is a loop that does nothing but go on to one of the blocks that
// begin with it, by the value of a local:
//
//	loop
//	  block … block
//	    local.get $x
//	    br_table …
//	  end
//	  …
//
// Go's compiler makes every body one, because WebAssembly has no goto: a jump
// sets the local and goes to the loop. So do others for what is no structured
// code. Where the block that such a jump comes to is still open, which it is for
// each jump forward, the jump can go there at once:
//
//	i32.const K                        i32.const K
//	local.set $x              =>       local.set $x
//	br $loop                           br $block
//
// It is the same walk with two instructions less, so what the loop's head
// would do, look whether fuel is left, has no need to be done: only jumps back
// turn a loop. Fuel is charged for the two instructions as if they were there.
type dispatch struct {
	local  uint32
	blocks int
	table  []uint32 // the default last
	node   int32
	ends   []int32 // labels of the blocks, outermost first
}

// dispatchCost is the fuel of a dispatch: of local.get and br_table.
const dispatchCost = 2

// readDispatch returns the dispatch that a loop begins with, or nil.
func readDispatch(c *Code, loop *Instruction) *dispatch {
	none := BlockType{}
	if loop.Block != none {
		return nil
	}
	blocks := 0
	it := c.Instructions()
	it.r.pos = loop.End
	var in Instruction
	for it.Next(&in) && in.Op == OpBlock && in.Block == none {
		blocks++
	}
	if in.Op != OpLocalGet || blocks == 0 {
		return nil
	}
	d := &dispatch{local: in.X, blocks: blocks, node: outside}
	if !it.Next(&in) || in.Op != OpBrTable {
		return nil
	}
	d.table = make([]uint32, 0, in.X+1)
	in.Labels(func(label uint32) { d.table = append(d.table, label) })
	d.ends = make([]int32, 0, blocks)
	return d
}

// known returns the dispatch that a br goes to with a value that is known, and
// the label that its table has for the value, if that is one of its blocks.
func (p *planner) known(in *Instruction) (*dispatch, int) {
	s := &p.scopes[len(p.scopes)-1-int(in.X)]
	d := s.dispatch
	if d == nil || s.op != OpLoop || !p.jump.set || p.jump.local != d.local {
		return nil, 0
	}
	label := int(d.table[min(p.jump.value, uint64(len(d.table)-1))])
	if label >= d.blocks {
		return nil, 0
	}
	return d, label
}

// jump tells whether the last two instructions set a local to a constant.
type jump struct {
	constant, set bool
	value         uint64
	local         uint32
}

func (j *jump) step(in *Instruction) {
	j.set = j.constant && in.Op == OpLocalSet
	j.constant = in.Op == OpI32Const
	switch {
	case j.set:
		j.local = in.X
	case j.constant:
		j.value = in.Value
	}
}

// direct is a br to write with another label.
type direct struct {
	at    int
	label uint32
}
