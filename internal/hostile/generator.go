package hostile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// A Generator makes hostile modules, the same ones for the same seed: honest modules
// with mutated bytes or mutated structure, random programs, random conversations with
// the host, and Extism plug-ins that make random calls.
type Generator struct {
	seed   uint64
	honest [][]byte
}

// NewGenerator returns the generator for a seed. It mutates the honest modules.
func NewGenerator(seed uint64, honest ...[]byte) *Generator { return &Generator{seed, honest} }

// puppetLetters are the commands of the test module puppet.
const puppetLetters = "tldgusibrnpqjhmfFocwekaxOLNPB0123456789MXCDSAKE"

// GeneratedTime is the HookTime of generated modules.
const GeneratedTime = 10 * time.Millisecond

// Case returns module n and the configuration of its run. Its outcome is unknown, but must be
// an answer, a rejection or a typed fault.
func (g *Generator) Case(n int) *Case {
	r := rand.New(rand.NewPCG(g.seed, uint64(n)))
	c := &Case{Name: fmt.Sprint(n)}
	var b []byte
	switch r.IntN(9) {
	case 0, 1:
		c.Group, b = "bytes", mutateBytes(r, g.base(r), g.base(r))
	case 2, 3:
		c.Group, b = "structure", mutateStructure(r, g.base(r))
	case 4, 5:
		c.Group, b = "program", newProgram(r, false).bytes()
	case 6:
		c.Group, b = "plug-in", newRandomPlugin(r).bytes()
	default:
		c.Group, b = "conversation", newProgram(r, true).bytes()
	}
	c.Module = fixed(b)
	c.Config = fmt.Sprintf(`{"do":"%c","n":%d}`, puppetLetters[r.IntN(len(puppetLetters))], r.IntN(100))
	c.Limits.HookTime = GeneratedTime
	c.Limits.MemoryBytes = []int64{1 << 20, 16 << 20, 64 << 20}[r.IntN(3)]
	c.Limits.Fuel = []int64{0, 0, 1 << 62, 1_000_000}[r.IntN(4)]
	c.OnFault = []hook.OnFault{hook.Skip, hook.Fail}[min(1, r.IntN(3))]
	c.Entries = 1 + max(0, r.IntN(10)-8)
	c.Whole = r.IntN(4) == 0
	c.Replies = func() []scripted.Reply {
		last := scripted.Text("all is done now")
		last.Size = 4
		return []scripted.Reply{
			scripted.Calls(abi.NewToolCall("c1", "t", `{"n":1}`), abi.NewToolCall("c2", "t", ``)),
			last,
			last,
			last,
			last,
			last,
			last,
			last,
		}
	}
	return c
}

// base returns a module to mutate: an honest module or a random program.
func (g *Generator) base(r *rand.Rand) []byte {
	if n := r.IntN(len(g.honest) + 3); n < len(g.honest) {
		return g.honest[n]
	}
	return newProgram(r, r.IntN(2) == 0).bytes()
}

// mutateBytes returns a mutated copy of the module b, made without regard to its structure. Some
// mutations copy bytes from other.
func mutateBytes(r *rand.Rand, b, other []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(4)*r.IntN(3) {
		if len(b) < 10 {
			return b
		}
		at := 8 + r.IntN(len(b)-8)
		if r.IntN(8) == 0 {
			at = r.IntN(len(b))
		}
		n := min(len(b)-at, 1+r.IntN(16))
		switch r.IntN(10) {
		case 0, 1:
			b[at] ^= 1 << r.IntN(8)
		case 2, 3:
			b[at] = byte(r.Uint32())
		case 4:
			b = slices.Delete(b, at, at+n)
		case 5:
			b = slices.Insert(b, at, bytes.Clone(b[at:at+n])...)
		case 6:
			b = b[:at]
		case 7: // the largest count or index
			copy(b[at:], limit)
		case 8:
			from := r.IntN(len(other))
			b = slices.Insert(b, at, other[from:min(len(other), from+r.IntN(64))]...)
		default:
			b = shuffleSections(r, b)
		}
	}
	return b
}

// shuffleSections removes, duplicates or swaps sections of a module.
func shuffleSections(r *rand.Rand, b []byte) []byte {
	list := sectionsOf(b)
	if len(list) < 2 {
		return b
	}
	i, j := r.IntN(len(list)), r.IntN(len(list))
	switch r.IntN(3) {
	case 0:
		list = slices.Delete(list, i, i+1)
	case 1:
		list = slices.Insert(list, j, list[i])
	default:
		list[i], list[j] = list[j], list[i]
	}
	return binaryOf(list...)
}

// sectionsOf splits a module into its sections, as far as possible.
func sectionsOf(b []byte) [][]byte {
	var list [][]byte
	for b = b[min(8, len(b)):]; len(b) > 1; {
		size, n := uint64(0), 1
		for shift := 0; n < len(b) && shift < 32; shift += 7 {
			size |= uint64(b[n]&0x7f) << shift
			n++
			if b[n-1] < 0x80 {
				break
			}
		}
		end := min(uint64(len(b)), uint64(n)+size)
		list = append(list, b[:end])
		b = b[end:]
	}
	return list
}

// mutateStructure decodes a module, mutates its structure and encodes it again.
func mutateStructure(r *rand.Rand, b []byte) []byte {
	m, err := wasm.Decode(bytes.Clone(b), wasm.DefaultLimits())
	if err != nil {
		return b
	}
	for range 1 + r.IntN(4) {
		mutateModule(r, m)
	}
	return m.Encode()
}

// number returns an index, a size or a count. Two thirds of the numbers are below 12; the others
// are at the boundaries of limits and types, and mostly invalid.
func number(r *rand.Rand) uint32 {
	if r.IntN(3) > 0 {
		return uint32(r.IntN(12))
	}
	return []uint32{0, 1, 255, 256, 1023, 1024, 1025, 65535, 65536, 65537, 1<<31 - 1, 1 << 31, 1<<32 - 1}[r.IntN(13)]
}

// mutateModule makes one random change to a decoded module, which may make it invalid.
func mutateModule(r *rand.Rand, m *wasm.Module) {
	switch r.IntN(14) {
	case 0, 1, 2:
		if len(m.Code) > 0 {
			mutateBody(r, &m.Code[r.IntN(len(m.Code))], m)
		}
	case 3:
		if len(m.Functions) > 0 {
			m.Functions[r.IntN(len(m.Functions))] = number(r)
		}
	case 4:
		if len(m.Memories) > 0 {
			m.Memories[0].Size = wasm.Range{Min: number(r), Max: number(r), HasMax: r.IntN(2) == 0}
		}
	case 5:
		m.Tables = append(
			m.Tables,
			wasm.Table{Type: wasm.FuncRef, Size: wasm.Range{Min: number(r), Max: number(r), HasMax: r.IntN(2) == 0}},
		)
	case 6:
		m.Globals = append(
			m.Globals,
			wasm.Global{
				GlobalType: wasm.GlobalType{
					Type:    []wasm.ValueType{wasm.I32, wasm.I64, wasm.F64, wasm.V128, wasm.FuncRef}[r.IntN(5)],
					Mutable: true,
				},
				Init: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: uint64(number(r))},
			},
		)
	case 7:
		if len(m.Exports) > 0 {
			e := &m.Exports[r.IntN(len(m.Exports))]
			e.Index, e.Kind = number(r), wasm.External(r.IntN(4))
		}
	case 8:
		hooks := contract.Hooks()
		m.Exports = append(
			m.Exports,
			wasm.Export{Name: string(hooks[r.IntN(len(hooks))]), Index: uint32(r.IntN(max(1, len(m.Code)+len(m.Imports))))},
		)
	case 9:
		if n := len(m.Code); n > 1 {
			i, j := r.IntN(n), r.IntN(n)
			m.Code[i], m.Code[j] = m.Code[j], m.Code[i]
		}
	case 10:
		f := number(r)
		m.Start = &f
	case 11:
		m.Elements = append(
			m.Elements,
			wasm.Element{Type: wasm.FuncRef, Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: uint64(number(r))},
				Functions: []uint32{number(r), number(r)}},
		)
	case 12:
		if len(m.Data) > 0 {
			m.Data[r.IntN(len(m.Data))].Offset.Bits = uint64(number(r))
		}
	default:
		if len(m.Imports) > 0 {
			i := &m.Imports[r.IntN(len(m.Imports))]
			i.Type, i.Name = number(r), []string{i.Name, "read", "next", "emit", "nothing", ""}[r.IntN(6)]
		}
	}
}

// mutateBody makes one random change to the body c of a function of m.
func mutateBody(r *rand.Rand, c *wasm.Code, m *wasm.Module) {
	body := bytes.Clone(c.Body)
	at := r.IntN(len(body))
	switch r.IntN(6) {
	case 0:
		body[at] = byte(r.Uint32())
	case 1:
		body[at] ^= 1 << r.IntN(8)
	case 2: // a loop around the body
		if n := len(body); body[n-1] == 0x0b {
			body = slices.Concat([]byte{0x03, noValue}, body[:n-1], []byte{0x0c, 0, 0x0b, 0x00, 0x0b})
		}
	case 3: // an instruction in front that traps or is invalid
		body = append(slices.Concat([][]byte{forever(), when(unreachable), i32(-1), growMemory, leave}[r.IntN(5)]), body...)
	case 4:
		body = slices.Clone(m.Code[r.IntN(len(m.Code))].Body)
	default:
		c.Locals = append(c.Locals, wasm.Locals{Count: number(r), Type: wasm.I64})
	}
	c.Body = body
}
