package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Shrink removes statements and calls from p while fails returns true, and then replaces
// instructions with constants. It changes p in place.
func Shrink(p *Program, fails func(*Program) bool) {
	for removed := true; removed; {
		removed = false
		for _, f := range p.functions {
			removed = shrink(&f.body, func() bool { return fails(p) }) || removed
		}
		for len(p.Args) > 1 {
			args := p.Args
			if p.Args = args[:len(args)-1]; !fails(p) {
				p.Args = args
				break
			}
			removed = true
		}
	}
	for _, f := range p.functions {
		f.result = append((&statement{inside: f.body}).appendTo(nil), f.result...)
		f.body = nil
	}
	for _, f := range p.functions {
		f.simplify(func() bool { return fails(p) })
	}
}

// constants lists the code with which simplify replaces instructions. The first element removes
// them.
var constants = [][]byte{
	nil,
	i32(0),
	{byte(wasm.OpI64Const), 0},
	{byte(wasm.OpF32Const), 0, 0, 0, 0},
	{byte(wasm.OpF64Const), 0, 0, 0, 0, 0, 0, 0, 0},
	vector(0, 0),
}

// simplify replaces sequences of instructions, the longest first, with the elements of constants.
// It keeps a replacement if fails returns true. Most replacements make the program invalid, and
// fails returns false for an invalid program.
func (f *function) simplify(fails func() bool) {
	ends := f.ends()
	for n := len(ends) - 1; n > 0; n-- {
		for i := 0; n > 0 && i+n < len(ends); i++ {
			before := f.result
			for _, c := range constants {
				if n == 1 && len(c) >= ends[i+1]-ends[i] {
					continue
				}
				if f.result = slices.Concat(before[:ends[i]], c, before[ends[i+n]:]); fails() {
					ends = f.ends()
					n = min(n, len(ends)-1)
					break
				}
				f.result = before
			}
		}
	}
}

// ends returns 0 and the end offset of each instruction of the function.
func (f *function) ends() []int {
	c := wasm.Code{Body: f.result}
	out := []int{0}
	var in wasm.Instruction
	for it := c.Instructions(); it.Next(&in); {
		out = append(out, in.End)
	}
	return out
}

func shrink(list *[]*statement, fails func() bool) (removed bool) {
	for i := len(*list) - 1; i >= 0; i-- {
		before := *list
		if *list = slices.Delete(slices.Clone(before), i, i+1); fails() {
			removed = true
			continue
		}
		*list = before
		removed = shrink(&before[i].inside, fails) || removed
	}
	return removed
}

// String lists the instructions of each function, and the module in hexadecimal.
func (p *Program) String() string {
	var b strings.Builder
	m := p.Module()
	fmt.Fprintf(&b, "seed %d, budget %d, slices of %d\n", p.Seed, p.Budget, p.Slice)
	for i := range m.Code {
		fmt.Fprintf(&b, "function %c %v\n", 'a'+i, m.Types[m.Functions[i]])
		writeInstructions(&b, &m.Code[i])
	}
	for i, args := range p.Args {
		fmt.Fprintf(&b, "call %d: %c%x\n", i, 'a'+i%functions, args)
	}
	fmt.Fprintf(&b, "%x\n", m.Encode())
	return b.String()
}

func writeInstructions(b *strings.Builder, c *wasm.Code) {
	var in wasm.Instruction
	indent := 1
	for it := c.Instructions(); it.Next(&in); {
		switch in.Op {
		case wasm.OpEnd, wasm.OpElse:
			indent = max(0, indent-1)
		}
		raw := c.Body[in.Start:in.End]
		fmt.Fprintf(b, "%s%v", strings.Repeat("  ", indent), in.Op)
		switch {
		case in.Op == wasm.OpI32Const, in.Op == wasm.OpI64Const:
			fmt.Fprintf(b, " %d", int64(in.Value))
		case len(raw) > 1:
			fmt.Fprintf(b, " % x", raw[1:])
		}
		b.WriteByte('\n')
		switch in.Op {
		case wasm.OpBlock, wasm.OpLoop, wasm.OpIf, wasm.OpElse:
			indent++
		}
	}
}
