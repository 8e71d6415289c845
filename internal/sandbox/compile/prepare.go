package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// prepare verifies everything about a module that does not depend on the limits of a load. It
// returns the module's facts and the metered module, which shares memory with b.
func (c *Compiler) prepare(b []byte) (*Facts, *wasm.Module, error) {
	m, err := wasm.Decode(b, c.opts.Structure)
	if err != nil {
		return nil, nil, &verify.RefusedError{Reason: err.Error(), Err: err}
	}
	f := &Facts{}
	if f.Outline, err = verify.OutlineOf(m); err != nil {
		return nil, nil, err
	}
	if err := c.opts.Surface.Verify(f.Outline); err != nil {
		return nil, nil, err
	}
	f.Names = readNames(b)
	boundTables(m, uint32(c.opts.Structure.TableEntries))
	if f.Data, err = takeData(m); err != nil {
		return nil, nil, err
	}
	if err := checkElements(m); err != nil {
		return nil, nil, err
	}
	f.functions = uint32(m.ImportedFunctions() + len(m.Functions))
	if f.NotResettable = strings.Join(m.ResetObstacles(), ", "); f.NotResettable == "" {
		f.Globals = mutableGlobals(m)
	}
	metered, err := wasm.Meter(m, wasm.MeterOptions{Depth: c.opts.StartStackBytes})
	if err != nil {
		return nil, nil, &verify.RefusedError{Reason: err.Error(), Err: err}
	}
	return f, metered, nil
}

// boundTables lowers the maximum of each table to limit entries, or to its minimum if it
// declares no maximum: the limit of the memory does not cover tables.
func boundTables(m *wasm.Module, limit uint32) {
	for i := range m.Tables {
		size := &m.Tables[i].Size
		if !size.HasMax {
			size.Max = size.Min
		}
		size.HasMax, size.Max = true, max(size.Min, min(size.Max, limit))
	}
}

// takeData removes the active data segments from a module. The sandbox writes them itself, because
// wazero takes milliseconds for the tens of thousands of segments of a Go module. takeData fails if
// a segment does not fit the memory.
func takeData(m *wasm.Module) (taken image.Data, err error) {
	total := 0
	for i := range m.Data {
		total += len(m.Data[i].Init)
	}
	taken.Places = make([]image.Place, 0, len(m.Data))
	taken.Bytes = make([]byte, 0, total) // a copy, so that the module's bytes can be freed
	size := uint64(0)
	if len(m.Memories) > 0 {
		size = uint64(m.Memories[0].Size.Min) * verify.PageBytes
	}
	for i := range m.Data {
		d := &m.Data[i]
		if d.Mode != wasm.Active {
			continue
		}
		// Modules cannot import globals, so the offset is a constant.
		at := uint32(d.Offset.Bits)
		if uint64(at)+uint64(len(d.Init)) > size {
			return taken, &verify.RefusedError{
				Reason: fmt.Sprintf("data segment %d has %d bytes for address 0x%x, which do not lie in the memory of %s",
					i, len(d.Init), at, text.Bytes(int64(size))),
			}
		}
		if len(d.Init) > 0 {
			taken.Places = append(taken.Places, image.Place{At: at, Length: uint32(len(d.Init))})
			taken.Bytes = append(taken.Bytes, d.Init...)
		}
		*d = wasm.Data{Mode: wasm.Passive} // an active segment is dropped once it was written
	}
	if !uses(m, wasm.OpMemoryInit, wasm.OpDataDrop) {
		m.Data, m.HasDataCount = nil, false
	}
	return taken, nil
}

// uses reports whether a decoded module has one of these instructions.
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

// checkElements fails if an active element segment does not fit its table. Instantiating
// such a module must trap, but wazero ignores the segment.
func checkElements(m *wasm.Module) error {
	for i := range m.Elements {
		e := &m.Elements[i]
		if e.Mode != wasm.Active {
			continue
		}
		// Modules can import neither tables nor globals, so the offset and the table's size are constants.
		at, size := uint32(e.Offset.Bits), m.Tables[e.Table].Size.Min
		if uint64(at)+uint64(e.Len()) > uint64(size) {
			return &verify.RefusedError{
				Reason: fmt.Sprintf("element segment %d has %d entries for index %d, which do not lie in the table of %d entries",
					i, e.Len(), at, size),
			}
		}
	}
	return nil
}

// mutableGlobals returns the names under which metering exports the globals that a snapshot
// contains.
func mutableGlobals(m *wasm.Module) []string {
	var names []string
	for i, g := range m.GlobalTypes() {
		if g.Mutable {
			names = append(names, wasm.GlobalExport(i))
		}
	}
	return names
}
