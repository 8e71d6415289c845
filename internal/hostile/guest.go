package hostile

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// abiTypes are the types of the ABI's imports: parameters and result, with i for i32 and I for
// i64.
var abiTypes = func() map[string][2]string {
	types := map[string][2]string{}
	for _, row := range abitable.Imports() {
		params, result := row.Signature()
		types[row.Name] = [2]string{params, result}
	}
	return types
}()

var wasiTypes = map[string][2]string{
	"clock_time_get": {"iIi", "i"}, "fd_write": {"iiii", "i"}, "poll_oneoff": {"iiii", "i"},
	"random_get": {"ii", "i"}, "proc_exit": {"i", ""}, "sched_yield": {"", "i"}, "path_open": {"iiiiiIIii", "i"},
}

const wasiModule = "wasi_snapshot_preview1"

// The locals of a hook: its parameter, four i32 and two i64.
const (
	inputLen = iota
	n0
	n1
	n2
	n3
	big0
	big1
)

// hookLocals declares the locals n0 to big1.
var hookLocals = []byte{2, 4, typeI32, 2, typeI64}

// A guest builds a module that uses the ABI. Imports must be added before functions.
type guest struct {
	signatures [][]byte
	imported   [][]byte
	names      map[string]int // index of each import by its name
	declared   [][]byte
	bodies     [][]byte
	exported   [][]byte
	placed     [][]byte
	table      []byte
	elems      []byte
	globals    [][]byte
	pages      []byte // encoded limits of the memory
	startAt    []byte
	passive    []byte // encoded data segment for memory.init
	extra      []byte // encoded custom sections at the end of the module
}

// newGuest returns a guest with a memory of 4 pages.
func newGuest() *guest { return &guest{names: map[string]int{}, pages: []byte{0, 4}} }

// signature returns the index of the function type with params and results, which are in the form
// of abiTypes. It adds the type if necessary.
func (g *guest) signature(params, results string) int {
	t := join([]byte{0x60}, letters(params), letters(results))
	if i := slices.IndexFunc(g.signatures, func(s []byte) bool { return bytes.Equal(s, t) }); i >= 0 {
		return i
	}
	g.signatures = append(g.signatures, t)
	return len(g.signatures) - 1
}

func letters(s string) []byte {
	b := leb(len(s))
	for _, c := range s {
		t := byte(typeI32)
		if c == 'I' {
			t = typeI64
		}
		b = append(b, t)
	}
	return b
}

// use imports a function from a module, at most once, and returns its index. params and results are
// in the form of abiTypes. use panics if the guest already has functions of its own.
func (g *guest) use(module, name, params, results string) int {
	if len(g.declared) > 0 {
		panic(fmt.Sprintf("import %s.%s comes after a function", module, name))
	}
	key := module + "." + name
	if i, ok := g.names[key]; ok {
		return i
	}
	g.imported = append(g.imported, join(str(module), str(name), []byte{kindFunction}, leb(g.signature(params, results))))
	g.names[key] = len(g.imported) - 1
	return g.names[key]
}

// abi imports a function of the ABI and returns its index.
func (g *guest) abi(name string) int {
	t := abiTypes[name]
	return g.use(contract.ImportModule, name, t[0], t[1])
}

// wasi imports a function of WASI and returns its index.
func (g *guest) wasi(name string) int {
	t := wasiTypes[name]
	return g.use(wasiModule, name, t[0], t[1])
}

// function adds a function with the given type and code, and with the locals of hookLocals after
// its parameters. It returns the function's index.
func (g *guest) function(params, results string, code ...[]byte) int {
	g.declared = append(g.declared, leb(g.signature(params, results)))
	g.bodies = append(g.bodies, function(hookLocals, join(code...)...))
	return len(g.imported) + len(g.declared) - 1
}

// export exports the function with the given index.
func (g *guest) export(name string, index int) *guest {
	g.exported = append(g.exported, join(str(name), []byte{kindFunction}, leb(index)))
	return g
}

// hook adds a hook that returns 0 at its end.
func (g *guest) hook(h abi.Hook, code ...[]byte) *guest {
	return g.export(string(h), g.function("i", "i", join(code...), i32(0)))
}

// start adds a function with the given code as the module's start function.
func (g *guest) start(code ...[]byte) *guest {
	g.startAt = leb(g.function("", "", code...))
	return g
}

// place adds a data segment that copies text to an address.
func (g *guest) place(at int, text string) *guest {
	g.placed = append(g.placed, join([]byte{0}, i32(at), []byte{0x0b}, str(text)))
	return g
}

// memory sets the initial number of pages.
func (g *guest) memory(pages int) *guest {
	g.pages = append([]byte{0}, leb(pages)...)
	return g
}

// entries adds a table of n entries, the first of which are the listed functions.
func (g *guest) entries(n int, list ...int) *guest {
	g.table = join([]byte{1, typeFuncRef, 0}, leb(n))
	if len(list) > 0 {
		g.elems = join([]byte{1, 0}, i32(0), []byte{0x0b}, leb(len(list)))
		for _, f := range list {
			g.elems = append(g.elems, leb(f)...)
		}
	}
	return g
}

// counter adds a mutable global of type i32 and returns its index.
func (g *guest) counter() int {
	g.globals = append(g.globals, []byte{typeI32, 1, 0x41, 0, 0x0b})
	return len(g.globals) - 1
}

// bytes returns the module in the binary format, without checking that it is valid.
func (g *guest) bytes() []byte {
	all := [][]byte{
		section(types, vec(g.signatures...)),
		section(imports, vec(g.imported...)),
		section(functions, vec(g.declared...)),
	}
	if g.table != nil {
		all = append(all, section(tables, g.table))
	}
	all = append(all, section(memories, []byte{1}, g.pages))
	if g.globals != nil {
		all = append(all, section(globals, vec(g.globals...)))
	}
	all = append(all, section(exports, vec(append(g.exported, join(str("memory"), []byte{kindMemory, 0}))...)))
	if g.startAt != nil {
		all = append(all, section(start, g.startAt))
	}
	if g.elems != nil {
		all = append(all, section(elements, g.elems))
	}
	segments := g.placed
	if g.passive != nil {
		segments = append([][]byte{join([]byte{1}, leb(len(g.passive)), g.passive)}, segments...)
		all = append(all, section(dataCount, leb(len(segments))))
	}
	all = append(all, section(codes, vec(g.bodies...)))
	if len(segments) > 0 {
		all = append(all, section(datas, vec(segments...)))
	}
	return binaryOf(append(all, g.extra)...)
}

// Addresses of show, which guests that use it must not overwrite.
const (
	showText   = 16
	showNone   = 48
	showBuffer = 0x10000
)

// show adds a function that takes the result of a host call and emits an event "reply", whose data
// is the pending reply, or 0 if there is none. The imports "read" and "emit" must have been added.
func (g *guest) show() int {
	read, emit := g.importIndex("read"), g.importIndex("emit")
	const head, none = `{"name":"reply","data":`, `{"name":"reply","data":0}`
	g.place(showText, head).place(showNone, none)
	return g.function("i", "",
		local(0), []byte{0x45}, when(i32(showNone), i32(len(none)), call(emit), drop, leave),
		local(0), i32(0), less, when(i32(0), local(0), []byte{0x6b}, setLocal(0)),
		i32(showBuffer), i32(showText), i32(len(head)), copyMemory,
		i32(showBuffer+len(head)), local(0), call(read), setLocal(n0),
		i32(showBuffer+len(head)), local(n0), add, i32('}'), store8(0),
		i32(showBuffer), local(n0), i32(len(head)+1), add, call(emit), drop)
}

// importIndex returns the index of an import of the ABI. It panics if the guest has not imported it.
func (g *guest) importIndex(name string) int {
	i, ok := g.names[contract.ImportModule+"."+name]
	if !ok {
		panic("import " + name + " first")
	}
	return i
}

// asking returns a guest that makes the host call name in one hook and shows the reply. code
// returns the instructions that call the function with index f and leave its result on the stack.
// They can also use the imports in others.
func asking(h abi.Hook, name string, code func(g *guest, f int) []byte, others ...string) *guest {
	g := newGuest()
	g.abi("read")
	g.abi("emit")
	for _, other := range others {
		g.abi(other)
	}
	f := g.abi(name)
	show := g.show()
	return g.hook(h, code(g, f), call(show))
}

// answerAt is the address at which most guests place their answer.
const answerAt = 0x400

// answering returns a guest that answers one hook with answer.
func answering(h abi.Hook, answer string) []byte {
	g := newGuest()
	write := g.abi("write")
	g.memory(4+len(answer)>>16).place(answerAt, answer)
	return g.hook(h, i32(answerAt), i32(len(answer)), call(write)).bytes()
}

// doing returns a guest with code in one hook and no imports.
func doing(h abi.Hook, code ...[]byte) []byte { return newGuest().hook(h, code...).bytes() }
