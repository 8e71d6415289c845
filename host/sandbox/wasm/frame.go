package wasm

// A framer estimates the stack that a call of a function takes.
//
// wazero's compiler gives a value a place of its own in the frame if there is no
// register for it, as over each call, and never uses a place twice. Values are
// what instructions leave, what locals are set to, and, where ways through the
// body meet, what each local is that was set on one of them. So no frame is
// larger than the sum of
//
//   - parameters, results and locals, and the parameters and results of the
//     largest call in the body, which lie in the caller's frame;
//   - the operands that lie on the stack during a call, or below more of them
//     than there are registers; each look at the fuel may call, too;
//   - one for each instruction that sets a local;
//   - for each block, loop and if, one for each local that is set in it.
//
// Measured (TestFrames), bodies that are made for it are within 2 % of that; 600
// bytes of code can need 40 KB of stack. But in code of compilers few of these
// values live over a call: counted so, a JavaScript interpreter would come to 28
// calls in 4 MiB. So the estimate is what is known for certain and a quarter of
// the body's size, which is more than what such code takes, and at least a
// sixteenth of that sum. The stack of hostile code can thus be larger than its
// limit, but never more than 16 times.
type framer struct {
	operands
	scopes  []int // how often locals are set in each open scope
	counted int   // operands at the bottom that have their place
	bytes   int64
	certain int64 // of bytes: parameters, results, locals
	calls   int64 // of the largest call
	slot    int64 // the largest of a local

	// through says that call_indirect goes through a function of its own, and indirect
	// whether there is one in the body.
	through, indirect bool
}

const (
	// frameRest is what a frame has besides: the return address, the frame
	// pointer, and what wazero saves there for itself.
	frameRest = 96
	// registers is how many operands surely find one.
	registers = 8
	// mostOver is by how much a frame can be larger than its estimate.
	mostOver = 16
)

// frame returns the estimate for a body with so many looks at the fuel, in bytes.
func (x *framer) frame(t FuncType, c *Code, looks int) int64 {
	most := x.most(t, c) + int64(looks)*registers*slotBytes(V128)
	frame := max(x.certain+x.calls+int64(len(c.Body)/4), most/mostOver)
	if x.through && x.indirect {
		frame += frameRest + x.calls
	}
	return frame
}

// most returns what no frame of the body is larger than.
func (x *framer) most(t FuncType, c *Code) int64 {
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
		if in.Op.helped() {
			x.place(len(x.stack))
		}
	}
	x.step(in)
	x.counted = min(x.counted, len(x.stack))
	x.place(len(x.stack) - registers)
}

// during counts what lies on the stack below a call's parameters.
func (x *framer) during(typ uint32, more int) {
	t := &x.m.Types[typ]
	x.calls = max(x.calls, slots(t.Params)+slots(t.Results))
	x.place(len(x.stack) - len(t.Params) - more)
}

// place counts the operands up to a height that have no place yet.
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
