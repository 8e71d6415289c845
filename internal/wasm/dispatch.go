package wasm

// A dispatch is the head of a loop that only branches to one of the blocks at its start,
// selected by a local:
//
//	loop
//	  block … block
//	    local.get $x
//	    br_table …
//	  end
//	  …
//
// Go's compiler translates every function body to one, because WebAssembly has no goto: a
// jump sets the local and branches to the loop. Other compilers do so for unstructured
// code. If the target block of such a jump is still open, which is the case for each
// forward jump, the jump can branch to it directly:
//
//	i32.const K                        i32.const K
//	local.set $x              =>       local.set $x
//	br $loop                           br $block
//
// This executes the same path with two fewer instructions. It also avoids the fuel check at the
// head of the loop, so that only backward jumps execute it. Fuel is charged for the two
// instructions as before.
type dispatch struct {
	local  uint32
	blocks int
	table  []uint32 // the labels of the br_table, its default last
	node   int32
	ends   []int32 // labels of the blocks, outermost first
}

// dispatchCost is the fuel of a dispatch: one local.get and one br_table.
const dispatchCost = 2

// readDispatch returns the dispatch at the start of a loop, or nil.
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
	d := &dispatch{local: in.X, blocks: blocks, node: noNode}
	if !it.Next(&in) || in.Op != OpBrTable {
		return nil
	}
	d.table = make([]uint32, 0, in.X+1)
	in.Labels(func(label uint32) { d.table = append(d.table, label) })
	d.ends = make([]int32, 0, blocks)
	return d
}

// known returns the dispatch to which a branch instruction jumps, and the label that the dispatch
// then selects. It returns nil if the branch has another target, if the value of the dispatch's
// local is unknown, or if the label is not one of the dispatch's blocks.
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

// jump records whether the last two instructions were a constant and a local.set.
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

// direct is a br that Meter replaces with a direct jump.
type direct struct {
	at    int
	label uint32
}
