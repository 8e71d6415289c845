package sandbox

import (
	"bytes"
	"encoding/gob"
	"errors"
	"strings"

	"github.com/agent-runner/agent-runner/host/sandbox/wasm"
)

// facts are what is known of a module beside its code: what verifying it found,
// and what its instances begin with.
type facts struct {
	shape *shape
	names *names
	data  []dataSegment // what a new memory holds

	functions     uint32   // in the module as it came, imports included
	globals       []string // exports of all that is mutable
	notResettable string   // why instances cannot be reset; empty if they can
}

// rewrite verifies a module as far as that does not depend on who loads it, and
// returns it metered, in wazero's hands all that is left of it. It has parts of b.
func (s *Sandbox) rewrite(b []byte) (f facts, metered *wasm.Module, err error) {
	m, err := wasm.Decode(b, s.structure)
	if err != nil {
		return f, nil, &RefusedError{Reason: err.Error(), Err: err}
	}
	if f.shape, err = shapeOf(m); err != nil {
		return f, nil, err
	}
	if err := s.surface.verify(f.shape); err != nil {
		return f, nil, err
	}
	f.names = readNames(b)
	boundTables(m, uint32(s.structure.TableEntries))
	if f.data, err = takeData(m); err != nil {
		return f, nil, err
	}
	if err := checkElements(m); err != nil {
		return f, nil, err
	}
	f.functions = uint32(m.ImportedFunctions() + len(m.Functions))
	if f.notResettable = strings.Join(m.ResetObstacles(), ", "); f.notResettable == "" {
		f.globals = mutableGlobals(m)
	}
	if metered, err = wasm.Meter(m, wasm.MeterOptions{Depth: startDepth}); err != nil {
		return f, nil, &RefusedError{Reason: err.Error(), Err: err}
	}
	return f, metered, nil
}

// factsFile is how facts are kept on disk.
type factsFile struct {
	Imports              []ImportInfo
	Exports              []ExportInfo
	MemoryMin, MemoryMax uint64
	NamesText            []byte
	NamesOf, NameEnds    []uint32 // of each name
	DataAt, DataSizes    []uint32 // of each segment
	Data                 []byte   // of all segments
	Functions            uint32
	Globals              []string
	NotResettable        string
}

func (f *facts) encode() ([]byte, error) {
	out := factsFile{
		Imports: f.shape.imports, Exports: f.shape.exports, MemoryMin: f.shape.memoryMin, MemoryMax: f.shape.memoryMax,
		NamesText: f.names.text, Functions: f.functions, Globals: f.globals, NotResettable: f.notResettable,
	}
	for _, n := range f.names.index {
		out.NamesOf, out.NameEnds = append(out.NamesOf, n.function), append(out.NameEnds, n.end)
	}
	for _, d := range f.data {
		out.DataAt, out.DataSizes = append(out.DataAt, d.at), append(out.DataSizes, uint32(len(d.bytes)))
		out.Data = append(out.Data, d.bytes...)
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(out)
	return b.Bytes(), err
}

var errNoFacts = errors.New("these are no facts of a module")

// decodeFacts reads what encode wrote. It is shown nothing else, see diskCache;
// what could make the host panic is checked nevertheless.
func decodeFacts(b []byte) (f facts, err error) {
	var in factsFile
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&in); err != nil {
		return f, err
	}
	if len(in.NamesOf) != len(in.NameEnds) || len(in.DataAt) != len(in.DataSizes) || in.MemoryMin > maxMemoryBytes {
		return f, errNoFacts
	}
	f = facts{
		shape: &shape{imports: in.Imports, exports: in.Exports, memoryMin: in.MemoryMin, memoryMax: in.MemoryMax},
		names: &names{text: in.NamesText, index: make([]nameAt, len(in.NamesOf))}, data: make([]dataSegment, len(in.DataAt)),
		functions: in.Functions, globals: in.Globals, notResettable: in.NotResettable,
	}
	at := uint32(0)
	for i, end := range in.NameEnds {
		if end < at || int64(end) > int64(len(in.NamesText)) {
			return f, errNoFacts
		}
		f.names.index[i] = nameAt{in.NamesOf[i], at, end}
		at = end
	}
	for i, size := range in.DataSizes {
		if int64(size) > int64(len(in.Data)) || uint64(in.DataAt[i])+uint64(size) > in.MemoryMin {
			return f, errNoFacts
		}
		f.data[i] = dataSegment{in.DataAt[i], in.Data[:size:size]}
		in.Data = in.Data[size:]
	}
	return f, nil
}
