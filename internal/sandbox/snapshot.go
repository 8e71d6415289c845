package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// state is all that a resettable module can change about itself: what a new
// instance begins with, and what a used one is put back to.
type state struct {
	pages   pageImage
	budget  *admission // that the pages are of
	name    string     // whose they are; may be empty
	globals []uint64
	users   atomic.Int32 // instances that were made from it, and the pool
}

func (s *state) retain() { s.users.Add(1) }

// release frees the state, if there is one, with its last user.
func (s *state) release() {
	if s != nil && s.users.Add(-1) == 0 {
		bytes := s.pages.bytes()
		s.pages.close()
		s.budget.give(s.name, bytes)
	}
}

// mutableGlobals are the names under which metering exports what a snapshot has
// to keep.
func mutableGlobals(m *wasm.Module) []string {
	var names []string
	for i, g := range m.GlobalTypes() {
		if g.Mutable {
			names = append(names, wasm.GlobalExport(i))
		}
	}
	return names
}

// uses reports whether a decoded module has an instruction of one of these kinds.
func uses(m *wasm.Module, ops ...wasm.Opcode) bool {
	var in wasm.Instruction
	for i := range m.Code {
		for it := m.Code[i].Instructions(); it.Next(&in); {
			if slices.Contains(ops, in.Op) {
				return true
			}
		}
	}
	return false
}

// memoryData is what a new memory holds: at each place the next bytes. A Go module
// has tens of thousands of places, so there is no pointer in them: else each garbage
// collection would follow them all.
type memoryData struct {
	places []place
	bytes  []byte
}

// write writes the data to a memory in which all places lie.
func (d *memoryData) write(memory []byte) {
	content := d.bytes
	for _, p := range d.places {
		copyPieces(memory[p.at:], content[:p.length])
		content = content[p.length:]
	}
}

// takeData takes the active data segments out of a module. The sandbox writes
// them itself, since wazero takes milliseconds for the tens of thousands that a
// Go module has. It fails if one does not lie in the memory.
func takeData(m *wasm.Module) (taken memoryData, err error) {
	total := 0
	for i := range m.Data {
		total += len(m.Data[i].Init)
	}
	taken.places = make([]place, 0, len(m.Data))
	taken.bytes = make([]byte, 0, total) // a copy, so that the module's bytes can be freed
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
			return taken, &RefusedError{Reason: fmt.Sprintf("data segment %d has %d bytes for address 0x%x, which do not lie in the memory of %s",
				i, len(d.Init), at, bytesText(int64(size)))}
		}
		if len(d.Init) > 0 {
			taken.places = append(taken.places, place{at, uint32(len(d.Init))})
			taken.bytes = append(taken.bytes, d.Init...)
		}
		*d = wasm.Data{Mode: wasm.Passive} // an active segment is as if dropped once it was written
	}
	if !uses(m, wasm.OpMemoryInit, wasm.OpDataDrop) {
		m.Data, m.HasDataCount = nil, false
	}
	return taken, nil
}

// checkElements fails if an active element segment does not lie in its table.
// Instantiating has to trap then, and wazero passes over it.
func checkElements(m *wasm.Module) error {
	for i := range m.Elements {
		e := &m.Elements[i]
		if e.Mode != wasm.Active {
			continue
		}
		// Neither tables nor globals are imported.
		at, size := uint32(e.Offset.Bits), m.Tables[e.Table].Size.Min
		if uint64(at)+uint64(e.Len()) > uint64(size) {
			return &RefusedError{Reason: fmt.Sprintf("element segment %d has %d entries for index %d, which do not lie in the table of %d entries",
				i, e.Len(), at, size)}
		}
	}
	return nil
}

// capture takes the state of an instance that is not running, if there is room for
// one more. The caller is its first user. It may be little else than another state, near.
func (c *core) capture(ctx context.Context, box *Sandbox, near *state) (*state, error) {
	pages, err := c.image(near, box.portable)
	if err != nil {
		return nil, err
	}
	name := ""
	if sharer := sharerOf(ctx); sharer != nil {
		name = sharer.Name
	}
	room := &box.imageBudget
	if n := pages.bytes(); !room.try(name, n) {
		pages.close()
		return nil, &ImageRoomError{Bytes: n, All: room.all}
	}
	s := &state{pages: pages, budget: room, name: name, globals: make([]uint64, len(c.globals))}
	for i, g := range c.globals {
		s.globals[i] = g.Get()
	}
	s.retain()
	return s, nil
}

// image makes an image of c's memory.
func (c *core) image(near *state, portable bool) (pageImage, error) {
	memory, _ := c.memory.Read(0, c.memory.Size())
	written := anywhere
	if c.state != nil {
		near, written = c.state, imagePagesOf(c.linear.pages).written
	}
	if near != nil {
		if d := newDifference(near, written, memory, portable); d != nil {
			return d, nil
		}
	}
	return newPageImage(memory, portable)
}

// become makes c, of which s was captured, an instance of s, for which the caller's
// use of s becomes that of c. It reports false if c cannot be reset to s.
func (c *core) become(s *state) bool {
	d, ok := s.pages.(*difference)
	if !ok || c.state == nil {
		return false
	}
	p := imagePagesOf(c.linear.pages)
	if !p.keep(d.length) {
		return false
	}
	c.linear.pages = &differingPages{p, d}
	c.state.release()
	c.state = s
	return true
}

// restoreGlobals sets the globals of c to those of s.
func (s *state) restoreGlobals(c *core) {
	for i, g := range c.globals {
		g.Set(s.globals[i])
	}
}
