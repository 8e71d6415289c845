package wasm

// A framer estimates how much stack a call of a function takes, in bytes.
//
// wazero's compiler gives a value its own stack slot if no register is free for it, for
// instance across calls, and never reuses a slot. Values are the results of instructions,
// the values assigned to locals and, where paths join, each local that was set on one of
// them. So no frame is larger than the sum of
//
//   - parameters, results and locals, and the parameters and results of the largest call in
//     the body, which are in the caller's frame;
//   - the operands on the stack during a call or a fuel check, and those below more operands
//     than there are registers;
//   - one slot for each instruction that sets a local;
//   - for each block, loop and if, one slot for each local that is set in it.
//
// The frames of bodies that are constructed to reach that sum are within 2 % of it (TestFrames);
// 600 bytes of code can need 40 KB of stack. In compiled code, few of these values live across a
// call: by this sum, 4 MiB would allow only 28 calls of a JavaScript interpreter. So the estimate
// is the fixed part plus a quarter of the body's size, which exceeds the frames of such code, and
// at least a sixteenth of the sum. Hostile code can thus use more stack than its limit, but at most
// 16 times as much.
type framer struct {
	operands
	scopes  []int // number of assignments to locals in each open scope
	counted int   // number of operands at the bottom of the stack that already have a slot
	bytes   int64
	certain int64 // the part of bytes for parameters, results and locals
	calls   int64 // bytes of the slots for the parameters and results of the largest call
	slot    int64 // bytes of the largest slot of a local

	// through reports that call_indirect calls a helper; indirect reports that the body
	// has a call_indirect.
	through, indirect bool
}

const (
	// frameRest is the size of the rest of a frame in bytes: the return address, the frame pointer
	// and the registers that wazero saves.
	frameRest = 96
	// registers is the number of operands that are certain to be in registers.
	registers = 8
	// maxUnderestimate is the maximum ratio of a frame's size to its estimate.
	maxUnderestimate = 16
)

// frame returns the estimate for a body with the given number of fuel checks, in bytes.
func (x *framer) frame(t FuncType, c *Code, checks int) int64 {
	limit := x.bound(t, c) + int64(checks)*registers*slotBytes(V128)
	frame := max(x.certain+x.calls+int64(len(c.Body)/4), limit/maxUnderestimate)
	if x.through && x.indirect {
		frame += frameRest + x.calls
	}
	return frame
}

// bound returns an upper bound of the body's frame, in bytes.
func (x *framer) bound(t FuncType, c *Code) int64 {
	x.begin(t, c)
	x.scopes, x.counted, x.calls, x.slot, x.indirect = append(x.scopes[:0], 0), 0, 0, 8, false
	x.bytes = frameRest + slots(t.Params) + slots(t.Results)
	for _, g := range c.Locals {
		x.bytes += int64(g.Count) * slotBytes(g.Type)
	}
	x.certain = x.bytes
	for _, v := range x.locals {
		x.slot = max(x.slot, slotBytes(v))
	}
	var in Instruction
	for it := c.Instructions(); it.Next(&in); {
		x.read(&in)
	}
	return x.bytes + x.calls
}

func (x *framer) read(in *Instruction) {
	if t := x.miscompiled(in); t != 0 {
		x.bytes += 2 * slotBytes(t) // the locals that the replacement sets
	}
	switch in.Op {
	case OpBlock, OpLoop, OpIf:
		x.scopes = append(x.scopes, 0)
	case OpEnd:
		last := len(x.scopes) - 1
		sets := x.scopes[last]
		x.scopes = x.scopes[:last]
		if last > 0 {
			x.scopes[last-1] += sets
			x.bytes += int64(min(sets, len(x.locals))) * x.slot
		}
	case OpLocalSet, OpLocalTee:
		x.scopes[len(x.scopes)-1]++
		x.bytes += slotBytes(x.locals[in.X])
	case OpCall:
		x.during(x.functions[in.X], 0)
	case OpCallIndirect:
		x.indirect = true
		x.during(in.X, 1)
	default:
		if in.Op.hasHelper() {
			x.place(len(x.stack))
		}
	}
	x.step(in)
	x.counted = min(x.counted, len(x.stack))
	x.place(len(x.stack) - registers)
}

// during counts the operands that stay on the stack during a call of a function of type typ: those
// below its parameters and below the given number of other operands, such as the table index of
// call_indirect.
func (x *framer) during(typ uint32, more int) {
	t := &x.m.Types[typ]
	x.calls = max(x.calls, slots(t.Params)+slots(t.Results))
	x.place(len(x.stack) - len(t.Params) - more)
}

// place adds slots for the operands below height that have none yet.
func (x *framer) place(height int) {
	for ; x.counted < height; x.counted++ {
		x.bytes += slotBytes(x.stack[x.counted])
	}
}

func slots(types []ValueType) (bytes int64) {
	for _, t := range types {
		bytes += slotBytes(t)
	}
	return bytes
}

func slotBytes(t ValueType) int64 {
	if t == V128 {
		return 16
	}
	return 8
}
