package wasm

import "slices"

// frame is an open block of the body that is being checked.
type frame struct {
	op     Opcode // OpBlock, OpLoop, OpIf or OpElse
	values int    // number of values that a branch to the block passes
}

// codeTotals has the sums over all functions that Limits bounds.
type codeTotals struct {
	bytes, locals, targets, values                     uint64
	blockSquares, blockLocals, loopLocals, callGlobals uint64
}

// code reads the code section and checks the bodies.
func (d *decoder) code() {
	n := d.count("functions", d.limits.Functions, 3)
	if n != len(d.m.Functions) && d.err == nil {
		d.failAt(
			d.pos,
			Malformed,
			"functions",
			uint64(n),
			uint64(len(d.m.Functions)),
			"%s functions are declared, but there are bodies for %s",
			grouped(uint64(len(d.m.Functions))),
			grouped(uint64(n)),
		)
		return
	}
	d.m.Code = slices.Grow(d.m.Code, n)
	all := d.b
	for i := 0; i < n && d.err == nil; i++ {
		at := d.pos
		d.function = d.imported.functions + i
		size := d.u32("the size of a function body")
		if uint64(size) > uint64(d.remaining()) && d.err == nil {
			d.truncated("the function body", uint64(size))
		}
		if uint64(size) > uint64(d.limits.BodyBytes) && d.err == nil {
			d.overLimit(at, "bytes", uint64(size), d.limits.BodyBytes, " per function body")
		}
		if d.totals.bytes += uint64(size); d.totals.bytes > uint64(d.limits.CodeBytes) && d.err == nil {
			d.overLimit(at, "bytes of code", d.totals.bytes, d.limits.CodeBytes, " for all functions")
		}
		if d.err != nil {
			return
		}
		d.b = all[:d.pos+int(size)]
		c := Code{Locals: d.locals()}
		c.Offset = d.pos
		c.Body = d.bytes(uint64(d.remaining()), "the function body")
		if d.err == nil {
			d.instructions(&c, d.m.Types[d.m.Functions[i]])
		}
		d.m.Code = append(d.m.Code, c)
		d.b = all
	}
	d.function = -1
}

func (d *decoder) locals() []Locals {
	n := d.count("groups of locals", len(d.b), 2)
	if n == 0 {
		return nil
	}
	groups := make([]Locals, n)
	for i := range groups {
		groups[i] = Locals{d.u32("the number of locals"), d.valueType("the type of locals")}
		if d.err != nil {
			return nil
		}
	}
	return groups
}

// body checks one function. The decoder adds the function's index to any error of the
// iterator and of the checks.
type body struct {
	d      *decoder
	it     *Instructions
	in     Instruction
	locals uint64
	// Counts for the limits on the function's control flow.
	blocks, loops, openLoops, calls, work uint64
}

// instructions checks the body of a function of type t.
func (d *decoder) instructions(c *Code, t FuncType) {
	b := body{d: d, it: c.Instructions()}
	b.it.r.function = d.function
	b.countLocals(c, t)
	d.frames = append(d.frames[:0], frame{OpBlock, len(t.Results)})
	for d.err == nil && b.it.Next(&b.in) {
		if len(d.frames) == 0 {
			b.fail(Malformed, "end", 0, 0, "the body continues after the function's end")
			break
		}
		b.check()
		b.work += uint64(cost(b.in.Op))
		if b.in.Op.hasHelper() {
			b.calls++
		}
	}
	if d.err == nil {
		d.err = b.it.r.err
	}
	if d.err == nil && len(d.frames) > 0 {
		d.failAt(
			len(d.b),
			Malformed,
			"end",
			uint64(len(d.frames)),
			0,
			"the body stops before the end of %d blocks",
			len(d.frames),
		)
	}
	if d.err == nil {
		b.shape(c)
	}
}

// shape checks the limits on quantities that make compiling costly: those of the function c, and
// the totals over all functions so far.
func (b *body) shape(c *Code) {
	d, t := b.d, &b.d.totals
	// Meter may add this many fuel checks, each of two blocks and a call.
	checks := b.work/maxNodeFuel + min(b.calls*smallLeaf/maxNodeFuel, maxChecks)
	b.blocks += 2 * checks
	b.calls += checks
	if b.blocks > uint64(d.limits.Blocks) {
		d.overLimit(c.Offset, "basic blocks", b.blocks, d.limits.Blocks, " per function; split the function")
		return
	}
	t.blockSquares += b.blocks * b.blocks
	t.blockLocals += b.blocks * b.locals
	t.loopLocals += b.loops * b.locals
	t.callGlobals += b.calls * d.mutableGlobals
	for _, sum := range []struct {
		what  string
		value uint64
		limit int
	}{
		{"basic blocks squared", t.blockSquares, d.limits.BlockSquares},
		{"basic blocks times locals", t.blockLocals, d.limits.BlockLocals},
		{"loops times locals", t.loopLocals, d.limits.LoopLocals},
		{"calls times mutable globals", t.callGlobals, d.limits.CallGlobals},
	} {
		if sum.value > uint64(sum.limit) {
			d.overLimit(c.Offset, sum.what, sum.value, sum.limit, " for all functions")
			return
		}
	}
}

func (b *body) countLocals(c *Code, t FuncType) {
	d := b.d
	b.locals = uint64(len(t.Params))
	for _, g := range c.Locals {
		b.locals += uint64(g.Count)
	}
	if b.locals > uint64(d.limits.FunctionLocals) {
		d.overLimit(c.Offset, "locals", b.locals, d.limits.FunctionLocals, " per function, parameters included")
	}
	if d.totals.locals += b.locals; d.totals.locals > uint64(d.limits.Locals) && d.err == nil {
		d.overLimit(c.Offset, "locals", d.totals.locals, d.limits.Locals, " for all functions, parameters included")
	}
}

func (b *body) fail(kind Kind, what string, value, limit uint64, format string, args ...any) {
	b.d.failAt(b.it.r.base+b.in.Start, kind, what, value, limit, format, args...)
}

// index checks that value, an index of the current instruction, is below n. what names the index in
// the error.
func (b *body) index(what string, value uint32, n int) {
	b.d.index(b.it.r.base+b.in.Start, what, value, n)
}

// check checks the indices of the current instruction and counts what the limits bound.
func (b *body) check() {
	d, in := b.d, &b.in
	switch in.Op.info().imm {
	case immNone:
		b.structure()
	case immLocal:
		if uint64(in.X) >= b.locals {
			b.fail(
				Invalid,
				"local",
				uint64(in.X),
				b.locals,
				"local %s does not exist, the function has %s",
				grouped(uint64(in.X)),
				grouped(b.locals),
			)
		}
	case immGlobal:
		b.global()
	case immLabel:
		b.label(in.X)
		b.blocks++
	case immLabels:
		b.branchTable()
	case immBlock:
		b.open()
	case immFunction:
		b.calls++
		b.index("function", in.X, len(d.functionTypes))
		if in.Op == OpRefFunc && d.err == nil && (d.referable == nil || !d.referable[in.X]) {
			b.fail(
				Invalid,
				"ref.func",
				uint64(in.X),
				0,
				"ref.func takes function %d, which no export, global or element segment names",
				in.X,
			)
		}
	case immIndirect:
		b.calls++
		b.index("type", in.X, len(d.m.Types))
		b.index("table", in.Y, len(d.tableTypes))
		if d.err == nil && d.tableTypes[in.Y].Type != FuncRef {
			b.fail(
				Invalid,
				"table",
				uint64(in.Y),
				0,
				"call_indirect takes table %d, which is of %s",
				in.Y,
				d.tableTypes[in.Y].Type,
			)
		}
	case immMemory, immMemories, immAccess, immAccessLane:
		b.memory()
	case immData, immDataMemory:
		b.data()
	case immTable:
		b.index("table", in.X, len(d.tableTypes))
	case immTables:
		b.index("table", in.X, len(d.tableTypes))
		b.index("table", in.Y, len(d.tableTypes))
	case immElem:
		b.index("element segment", in.X, len(d.m.Elements))
	case immElemTable:
		b.index("element segment", in.X, len(d.m.Elements))
		b.index("table", in.Y, len(d.tableTypes))
	}
}

func (b *body) global() {
	b.index("global", b.in.X, len(b.d.globalTypes))
	if b.in.Op == OpGlobalSet && b.d.err == nil && !b.d.globalTypes[b.in.X].Mutable {
		b.fail(Invalid, "global", uint64(b.in.X), 0, "global.set takes global %d, which is not mutable", b.in.X)
	}
}

func (b *body) memory() {
	if b.d.memoryCount == 0 {
		b.fail(Invalid, "memory", 0, 0, "%s needs a memory, but the module has none", b.in.Op)
	}
}

func (b *body) data() {
	if b.d.announced < 0 {
		b.fail(Invalid, "data segment", uint64(b.in.X), 0, "%s needs a data count section, but the module has none", b.in.Op)
		return
	}
	b.index("data segment", b.in.X, b.d.announced)
	if b.in.Op == OpMemoryInit {
		b.memory()
	}
}

// structure checks else and end, and updates the open blocks.
func (b *body) structure() {
	d := b.d
	switch top := len(d.frames) - 1; b.in.Op {
	case OpElse:
		if top == 0 || d.frames[top].op != OpIf {
			b.fail(Malformed, "else", 0, 0, "else does not belong to an if")
			return
		}
		d.frames[top].op = OpElse
		b.blocks++
	case OpEnd:
		if d.frames[top].op == OpLoop {
			b.openLoops--
		}
		d.frames = d.frames[:top]
	}
}

// open checks a block, loop or if, and adds it to the open blocks.
func (b *body) open() {
	d, in := b.d, &b.in
	params, results := 0, 0
	switch {
	case in.Block.HasIndex:
		if b.index("type", in.Block.Index, len(d.m.Types)); d.err != nil {
			return
		}
		t := &d.m.Types[in.Block.Index]
		params, results = len(t.Params), len(t.Results)
	case in.Block.Result != 0:
		results = 1
	}
	f := frame{op: in.Op, values: results}
	b.blocks++
	switch in.Op {
	case OpIf:
		b.blocks++
	case OpLoop:
		f.values = params
		b.loops++
		// Meter adds two blocks and a call to each loop.
		b.blocks += 3
		b.calls++
		if b.openLoops++; b.openLoops > uint64(d.limits.LoopNesting) {
			d.overLimit(b.it.r.base+in.Start, "nested loops", b.openLoops, d.limits.LoopNesting, " per function")
			return
		}
	}
	// The function itself is a frame too, but does not count as nesting.
	if len(d.frames) > d.limits.Nesting {
		d.overLimit(b.it.r.base+in.Start, "nested blocks", uint64(len(d.frames)), d.limits.Nesting, " per function")
		return
	}
	d.frames = append(d.frames, f)
}

func (b *body) label(label uint32) {
	d := b.d
	if uint64(label) >= uint64(len(d.frames)) {
		b.fail(
			Invalid,
			"label",
			uint64(label),
			uint64(len(d.frames)),
			"%s branches to label %s, but only %s blocks are open",
			b.in.Op,
			grouped(uint64(label)),
			grouped(uint64(len(d.frames))),
		)
		return
	}
	d.totals.values += uint64(d.frames[len(d.frames)-1-int(label)].values)
	if d.totals.values > uint64(d.limits.BranchValues) {
		d.overLimit(
			b.it.r.base+b.in.Start,
			"values carried by branches",
			d.totals.values,
			d.limits.BranchValues,
			" for all functions",
		)
	}
}

func (b *body) branchTable() {
	d, n := b.d, uint64(b.in.X)
	if n > uint64(d.limits.BranchTargets) {
		d.overLimit(b.it.r.base+b.in.Start, "branch targets", n, d.limits.BranchTargets, " per br_table")
	}
	if d.totals.targets += n; d.totals.targets > uint64(d.limits.TotalBranchTargets) && d.err == nil {
		d.overLimit(
			b.it.r.base+b.in.Start,
			"branch targets",
			d.totals.targets,
			d.limits.TotalBranchTargets,
			" for all br_table",
		)
	}
	if d.err != nil {
		return
	}
	b.in.Labels(b.label)
	b.blocks += n + 1
}
