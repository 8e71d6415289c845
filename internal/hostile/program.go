package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/agent-runner/agent-runner/internal/contract"
)

// A program is a random valid module that need not terminate. Its functions are of type
// (i32) -> i32, hooks included. Only _initialize and a start function have neither
// parameters nor results.
type program struct {
	*rand.Rand
	*guest
	talks  bool // whether the program makes many host calls
	first  int  // index of the first function
	count  int  // number of functions
	labels int  // number of labels in scope
	left   int  // number of statements left
	texts  []place
	calls  []string // names of the imported functions of the ABI
	prints int      // the index of fd_write, or -1
}

// A place is the address and the length of a string in memory.
type place struct{ at, n int }

// textAt is the address of the first string in a program's memory.
const textAt = 0x1000

// newProgram returns a random program. talks makes it import and call every function of the ABI
// often.
func newProgram(r *rand.Rand, talks bool) *program {
	p := &program{Rand: r, guest: newGuest(), talks: talks, prints: -1}
	p.memory(1 + r.IntN(4))
	for _, name := range sortedCalls {
		if talks || r.IntN(3) == 0 {
			p.abi(name)
			p.calls = append(p.calls, name)
		}
	}
	if r.IntN(2) == 0 {
		p.prints = p.wasi("fd_write")
	}
	at := textAt
	for range 2 + r.IntN(6) {
		text := p.text()
		if at+len(text) > 1<<16 {
			break
		}
		p.place(at, text)
		p.texts = append(p.texts, place{at, len(text)})
		at += len(text)
	}
	p.passive = make([]byte, r.IntN(2)<<16+100)
	p.counter()
	p.counter()
	p.first, p.count = len(p.imported), 2+r.IntN(6)
	for range p.count {
		p.labels, p.left = 1, 4+r.IntN(30)
		p.function("i", "i", p.statements(0), p.result())
	}
	list := []int{}
	for range 4 {
		list = append(list, p.someFunction())
	}
	p.entries([]int{4, 10, 1000, 60_000}[r.IntN(4)], list...)
	hooks := contract.Hooks()
	r.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
	for _, h := range hooks[:1+r.IntN(5)] {
		if h == contract.HookDescribe || h == contract.HookConfigure {
			if r.IntN(4) > 0 {
				continue // otherwise few would be configured and run
			}
		}
		p.export(string(h), p.someFunction())
	}
	p.export("before_agent_", p.first)
	if r.IntN(20) == 0 {
		p.export("_initialize", p.function("", "", p.statements(0)))
	}
	if r.IntN(20) == 0 {
		p.start(p.statements(0))
	}
	return p
}

var sortedCalls = func() []string {
	var names []string
	for name := range abiTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

func (p *program) someFunction() int { return p.first + p.IntN(p.count) }

// callee returns the index of a function to call, usually of a later one, because most programs
// would only recurse otherwise.
func (p *program) callee() int {
	now := len(p.imported) + len(p.declared)
	if left := p.first + p.count - now - 1; left > 0 && p.IntN(8) > 0 {
		return now + 1 + p.IntN(left)
	}
	return p.someFunction()
}

// result returns code that pushes the result of a function: success, failure, or an invalid one.
func (p *program) result() []byte {
	switch p.IntN(10) {
	case 0:
		return p.value(0)
	case 1:
		return i32(1)
	default:
		return i32(0)
	}
}

// statements generates up to four statements, until p.left is used up.
func (p *program) statements(depth int) []byte {
	var code []byte
	for range 1 + p.IntN(4) {
		if p.left--; p.left < 0 {
			break
		}
		code = append(code, p.statement(depth)...)
	}
	return code
}

// inside generates statements in the scope of another label.
func (p *program) inside(depth int) []byte {
	p.labels++
	code := p.statements(depth + 1)
	p.labels--
	return code
}

// statement generates one random statement. If depth is above 5, the statement is an assignment or
// a store.
func (p *program) statement(depth int) []byte {
	if depth > 5 {
		return p.simple()
	}
	switch p.IntN(18) {
	case 0, 1:
		return loop(p.inside(depth), p.repeats())
	case 2:
		return block(p.inside(depth))
	case 3:
		return join(p.value(0), when(p.inside(depth)))
	case 4:
		return join(p.value(0), []byte{0x04, noValue}, p.inside(depth), []byte{0x05}, p.inside(depth), []byte{0x0b})
	case 5:
		if p.labels < 2 {
			return p.simple() // the function's own label takes a value
		}
		return join(p.value(0), branchIf(p.IntN(p.labels-1)))
	case 6:
		return p.table(depth)
	case 7:
		return join(p.value(0), when(p.leaves()))
	case 8, 9:
		return join(p.value(0), call(p.callee()), drop)
	case 10:
		return join(p.value(0), p.value(0), []byte{0x11}, leb(p.signature("i", "i")), []byte{0}, drop)
	case 11, 12:
		return p.bulk()
	default:
		if p.talks || p.IntN(4) == 0 {
			return p.host()
		}
		return p.simple()
	}
}

// repeats generates the branch at the end of a loop, which makes the loop endless, counting, or
// ending at random.
func (p *program) repeats() []byte {
	switch p.IntN(4) {
	case 0:
		return branch(0)
	case 1:
		return join(p.value(0), branchIf(0))
	default:
		return join(local(n0), i32(1), add, teeLocal(n0), i32(p.IntN(2000)), less, branchIf(0))
	}
}

// table generates a br_table in nested blocks.
func (p *program) table(depth int) []byte {
	n := 1 + p.IntN(5)
	code := repeat(n, 0x02, noValue)
	code = join(code, p.value(0), []byte{0x0e}, leb(n-1))
	for i := range n {
		code = append(code, byte(p.IntN(i+1)))
	}
	for i := range n {
		p.labels += n - 1 - i
		code = join(code, []byte{0x0b}, p.statements(depth+2))
		p.labels -= n - 1 - i
	}
	return code
}

// leaves generates a trap or a return.
func (p *program) leaves() []byte {
	switch p.IntN(6) {
	case 0:
		return unreachable
	case 1:
		return join(i32(p.IntN(4)-1), leave)
	default:
		return join(i32(p.IntN(20)/19), leave)
	}
}

// simple generates an assignment or a store.
func (p *program) simple() []byte {
	switch p.IntN(9) {
	case 0, 1, 2:
		return join(p.value(0), setLocal(n0+p.IntN(4)))
	case 3:
		return join(p.long(), setLocal(big0+p.IntN(2)))
	case 4:
		return join(p.value(0), setGlobal(p.IntN(2)))
	case 5:
		return join(p.address(), p.value(0), store32(p.offset()))
	case 6:
		return join(p.address(), p.value(0), store8(p.offset()))
	case 7:
		return join(p.address(), p.long(), []byte{0x37, 3}, leb(p.offset()))
	default: // a vector
		return join(
			p.address(),
			[]byte{0xfd, 0x0c},
			binary.LittleEndian.AppendUint64(nil, p.Uint64()),
			binary.LittleEndian.AppendUint64(nil, 7),
			[]byte{0xfd, 0x0b, 4},
			leb(p.offset()),
		)
	}
}

func (p *program) offset() int {
	if p.IntN(30) == 0 {
		return int(number(p.Rand))
	}
	return p.IntN(64)
}

// address returns code that pushes an address that is usually in the memory.
func (p *program) address() []byte {
	if p.IntN(12) == 0 {
		return p.value(0)
	}
	return join(p.value(0), i32(0x7fff), and, i32(0x8000), add)
}

// size returns code that pushes a length for bulk instructions and host calls.
func (p *program) size() []byte {
	if p.IntN(3) > 0 {
		return i32(p.IntN(1 << p.IntN(17)))
	}
	return p.edge()
}

func (p *program) edge() []byte { return i32(int(int32(number(p.Rand)))) }

// bulk generates an instruction that grows, fills or copies the memory or the table.
func (p *program) bulk() []byte {
	switch p.IntN(12) {
	case 0, 1:
		return join(p.size(), growMemory, drop)
	case 2:
		return join(p.edge(), growMemory, drop)
	case 3, 4:
		return join(p.address(), p.value(0), p.size(), fill)
	case 5, 6:
		return join(p.address(), p.address(), p.size(), copyMemory)
	case 7: // the whole memory
		return join(i32(0), i32(1), []byte{0x3f, 0}, i32(16), []byte{0x74}, fill)
	case 8:
		return join(p.address(), p.size(), p.size(), initMemory)
	case 9:
		return join(p.size(), nullFunc, p.size(), fillTable)
	case 10:
		return join(p.size(), p.size(), p.size(), copyTable)
	default:
		return join(nullFunc, p.size(), growTable, drop)
	}
}

// host generates a host call with partly valid parameters.
func (p *program) host() []byte {
	if p.prints >= 0 && p.IntN(10) == 0 {
		return join(p.edge(), p.address(), p.size(), p.address(), call(p.prints), drop)
	}
	if len(p.calls) == 0 {
		return nil
	}
	name := p.calls[p.IntN(len(p.calls))]
	var code []byte
	t := abiTypes[name]
	for i := 0; i < len(t[0]); i++ {
		switch {
		case t[0][i] == 'I':
			code = append(code, i64([]int64{-1, 0, 1, 1 << 62, p.Int64()}[p.IntN(5)])...)
		case i+1 < len(t[0]) && t[0][i+1] == 'i' && name != "messages" && p.IntN(6) > 0: // the address and length of a string
			text := place{0x8000, p.IntN(100)}
			if len(p.texts) > 0 && p.IntN(8) > 0 {
				text = p.texts[p.IntN(len(p.texts))]
			}
			code = join(code, i32(text.at), i32(text.n))
			i++
		case p.IntN(3) == 0:
			code = append(code, p.edge()...)
		default:
			code = append(code, i32(p.IntN(5))...)
		}
	}
	code = append(code, call(p.importIndex(name))...)
	if t[1] == "" {
		return code
	}
	return join(code, setLocal(n0+p.IntN(4)))
}

// value returns code that pushes a random i32.
func (p *program) value(depth int) []byte {
	if depth > 3 {
		return i32(int(int32(p.Uint32())) >> p.IntN(32))
	}
	switch p.IntN(10) {
	case 0, 1, 2:
		return local(p.IntN(5))
	case 3:
		return global(p.IntN(2))
	case 4:
		return i32(int(int32(p.Uint32())) >> p.IntN(32))
	case 5: // arithmetic, sometimes a division
		op := byte(0x6a + p.IntN(3))
		if p.IntN(6) == 0 {
			op = byte(0x6d + p.IntN(4))
		}
		return join(p.value(depth+1), p.value(depth+1), []byte{op})
	case 6:
		return join(p.value(depth+1), p.value(depth+1), []byte{byte(0x46 + p.IntN(10))})
	case 7:
		return join(p.address(), load32(p.offset()))
	case 8:
		return join(p.address(), load8(p.offset()))
	default:
		return join(p.long(), []byte{0xa7})
	}
}

// long returns code that pushes a random i64.
func (p *program) long() []byte {
	switch p.IntN(4) {
	case 0:
		return i64(p.Int64() >> p.IntN(64))
	case 1:
		return join(local(big0), local(big1), []byte{byte(0x7c + p.IntN(3))})
	case 2:
		return join(i32(int(p.Uint32())), []byte{0xac})
	default:
		return local(big0 + p.IntN(2))
	}
}
