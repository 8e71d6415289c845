package sandbox

import (
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/host/sandbox/wasm"
)

// globalName is the name under which the sandbox exports the n-th mutable global
// of a module. No module has such a name: the decoder refuses control characters.
func globalName(n int) string { return fmt.Sprintf("\x00global.%d", n) }

// state is all that a resettable module can change about itself: what a new
// instance begins with, and what a used one is put back to.
type state struct {
	pages   pageImage
	globals []uint64
	users   atomic.Int32 // instances that were made from it, and the pool
}

func (s *state) retain() { s.users.Add(1) }

// release frees the state with its last user.
func (s *state) release() {
	if s.users.Add(-1) == 0 {
		s.pages.close()
	}
}

// prepareReset makes a module one whose instances can be reset, if that is
// possible: its mutable globals are exported. Otherwise it says why not.
//
// What lies in tables, and which segments were dropped, cannot be put back, so a
// module that changes them while it runs is made anew each time.
func prepareReset(m *wasm.Module) (globals int, whyNot string) {
	if m.Start != nil {
		return 0, "it has a start function"
	}
	for i := range m.Globals {
		g := &m.Globals[i]
		if !g.Mutable {
			continue
		}
		if g.Type == wasm.V128 || g.Type.IsReference() {
			return 0, fmt.Sprintf("it has a mutable global of type %v", g.Type)
		}
	}
	if op, ok := firstOf(m, changesTables); ok {
		return 0, "it uses " + op.String()
	}
	for i := range m.Globals {
		if !m.Globals[i].Mutable {
			continue
		}
		// No globals are imported, so that the index is the same.
		m.Exports = append(m.Exports, wasm.Export{Name: globalName(globals), Kind: wasm.ExternalGlobal, Index: uint32(i)})
		globals++
	}
	return globals, ""
}

func changesTables(op wasm.Opcode) bool {
	switch op {
	case wasm.OpTableSet, wasm.OpTableGrow, wasm.OpTableInit, wasm.OpTableCopy, wasm.OpTableFill,
		wasm.OpElemDrop, wasm.OpDataDrop:
		return true
	default:
		return false
	}
}

// firstOf finds the first instruction of a kind in a decoded module.
func firstOf(m *wasm.Module, is func(wasm.Opcode) bool) (wasm.Opcode, bool) {
	var in wasm.Instruction
	for i := range m.Code {
		for it := m.Code[i].Instructions(); it.Next(&in); {
			if is(in.Op) {
				return in.Op, true
			}
		}
	}
	return 0, false
}

// dataSegment is what a new memory holds at an offset.
type dataSegment struct {
	at    uint32
	bytes []byte
}

// takeData takes the active data segments out of a module. The sandbox writes
// them itself, since wazero takes milliseconds for the tens of thousands that a
// Go module has. It fails if one does not lie in the memory.
func takeData(m *wasm.Module) ([]dataSegment, error) {
	var taken []dataSegment
	var all []byte // one copy of all, so that the module's bytes can be freed
	size := uint64(0)
	if len(m.Memories) > 0 {
		size = uint64(m.Memories[0].Size.Min) * pageBytes
	}
	for i := range m.Data {
		d := &m.Data[i]
		if d.Mode != wasm.Active {
			continue
		}
		// No globals are imported, so that an offset is a constant.
		at := uint32(d.Offset.Bits)
		if uint64(at)+uint64(len(d.Init)) > size {
			return nil, &RefusedError{Reason: fmt.Sprintf("data segment %d has %d bytes for address 0x%x, which do not lie in the memory of %s",
				i, len(d.Init), at, bytesText(int64(size)))}
		}
		if len(d.Init) > 0 {
			all = append(all, d.Init...)
			taken = append(taken, dataSegment{at, all[len(all)-len(d.Init):]})
		}
		*d = wasm.Data{Mode: wasm.Passive} // an active segment is as if dropped once it was written
	}
	usesData := func(op wasm.Opcode) bool { return op == wasm.OpMemoryInit || op == wasm.OpDataDrop }
	if _, ok := firstOf(m, usesData); !ok {
		m.Data, m.HasDataCount = nil, false
	}
	return taken, nil
}

// capture takes the state of an instance that is not running. The caller is its
// first user.
func (c *core) capture(portable bool) (*state, error) {
	memory, _ := c.memory.Read(0, c.memory.Size())
	pages, err := newPageImage(memory, portable)
	if err != nil {
		return nil, err
	}
	s := &state{pages: pages, globals: make([]uint64, len(c.globals))}
	for i, g := range c.globals {
		s.globals[i] = g.Get()
	}
	s.retain()
	return s, nil
}

// findGlobals looks up what prepareReset exported.
func (c *core) findGlobals(n int) error {
	c.globals = make([]api.MutableGlobal, n)
	for i := range c.globals {
		g, ok := c.module.ExportedGlobal(globalName(i)).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("sandbox: global %d is not exported", i)
		}
		c.globals[i] = g
	}
	return nil
}

// restoreGlobals sets the globals of c to those of s.
func (s *state) restoreGlobals(c *core) {
	for i, g := range c.globals {
		g.Set(s.globals[i])
	}
}
