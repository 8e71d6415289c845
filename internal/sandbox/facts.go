package sandbox

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// facts are what is known of a module beside its code: what verifying it found,
// and what its instances begin with.
type facts struct {
	shape *shape
	names *names
	data  memoryData // what a new memory holds

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

// encode writes facts as they are kept on disk: numbers as uvarints, and texts and lists
// behind their lengths. Reading that takes a twentieth of what a format takes that
// describes itself, for each module of each start.
func (f *facts) encode() []byte {
	var w factsWriter
	w.number(uint64(len(f.shape.imports)))
	for _, i := range f.shape.imports {
		w.text(i.Module)
		w.text(i.Name)
		w.funcType(i.Type)
	}
	w.number(uint64(len(f.shape.exports)))
	for _, e := range f.shape.exports {
		w.text(e.Name)
		w.text(e.Kind)
		w.funcType(e.Type)
	}
	w.number(f.shape.memoryMin)
	w.number(f.shape.memoryMax)
	w.number(uint64(f.functions))
	w.number(uint64(len(f.globals)))
	for _, g := range f.globals {
		w.text(g)
	}
	w.text(f.notResettable)
	w.text(string(f.names.text))
	w.number(uint64(len(f.names.index)))
	at := uint32(0)
	for _, n := range f.names.index {
		w.number(uint64(n.function))
		w.number(uint64(n.end - at))
		at = n.end
	}
	w.number(uint64(len(f.data.places)))
	for _, p := range f.data.places {
		w.number(uint64(p.at))
		w.number(uint64(p.length))
	}
	w.text(string(f.data.bytes))
	return w
}

type factsWriter []byte

func (w *factsWriter) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *factsWriter) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *factsWriter) funcType(t FuncType) {
	w.text(string(t.Params))
	w.text(string(t.Results))
}

var errNoFacts = errors.New("these are no facts of a module")

// decodeFacts reads what encode wrote, and has parts of it. It is shown nothing else,
// see diskCache; what could make the host panic is checked nevertheless.
func decodeFacts(b []byte) (f facts, err error) {
	r := factsReader{left: b}
	f = facts{shape: &shape{}, names: &names{}}
	f.shape.imports = make([]ImportInfo, r.count())
	for i := range f.shape.imports {
		f.shape.imports[i] = ImportInfo{Module: string(r.bytes()), Name: string(r.bytes()), Type: r.funcType()}
	}
	f.shape.exports = make([]ExportInfo, r.count())
	for i := range f.shape.exports {
		f.shape.exports[i] = ExportInfo{Name: string(r.bytes()), Kind: string(r.bytes()), Type: r.funcType()}
	}
	f.shape.memoryMin, f.shape.memoryMax = r.number(), r.number()
	f.functions = uint32(r.number())
	if n := r.count(); n > 0 {
		f.globals = make([]string, n)
	}
	for i := range f.globals {
		f.globals[i] = string(r.bytes())
	}
	f.notResettable = string(r.bytes())
	f.names.text = r.bytes()
	f.names.index = make([]nameAt, r.count())
	at := uint64(0)
	for i := range f.names.index {
		function, end := r.number(), at+r.number()
		if end < at || end > uint64(len(f.names.text)) {
			return f, errNoFacts
		}
		f.names.index[i] = nameAt{uint32(function), uint32(at), uint32(end)}
		at = end
	}
	f.data.places = make([]place, r.count())
	total := uint64(0)
	for i := range f.data.places {
		at, length := r.number(), r.number()
		if at > maxMemoryBytes || length > maxMemoryBytes || at+length > f.shape.memoryMin {
			return f, errNoFacts
		}
		f.data.places[i] = place{uint32(at), uint32(length)}
		total += length
	}
	if f.data.bytes = r.bytes(); uint64(len(f.data.bytes)) != total {
		return f, errNoFacts
	}
	if r.wrong || len(r.left) > 0 || f.shape.memoryMin > maxMemoryBytes {
		return f, errNoFacts
	}
	return f, nil
}

// A factsReader reads what a factsWriter wrote. What is not there is 0 or empty, and
// wrong is set.
type factsReader struct {
	left  []byte
	wrong bool
}

func (r *factsReader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.left, r.wrong = nil, true
		return 0
	}
	r.left = r.left[size:]
	return n
}

// count reads how many things follow, each of which takes a byte at least.
func (r *factsReader) count() int {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.left, r.wrong = nil, true
		return 0
	}
	return int(n)
}

func (r *factsReader) bytes() []byte {
	n := r.count()
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *factsReader) funcType() FuncType {
	return FuncType{Params: r.valueTypes(), Results: r.valueTypes()}
}

func (r *factsReader) valueTypes() []api.ValueType {
	b := r.bytes()
	if len(b) == 0 {
		return nil
	}
	return b
}
