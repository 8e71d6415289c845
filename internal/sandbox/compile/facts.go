package compile

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Facts describe a module in addition to its code.
type Facts struct {
	Outline *verify.Outline
	Names   *Names
	Data    image.Data // data of a new memory

	Globals       []string // the names under which the mutable globals are exported
	NotResettable string   // why instances cannot be reset; empty if they can

	functions uint32 // number of functions of the original module, imports included
}

// Original returns the index that a function of the metered module has in the original one,
// and false if metering added the function.
func (f *Facts) Original(index uint32) (uint32, bool) {
	switch imports := uint32(len(f.Outline.Imports)); {
	case index == imports: // metering adds one import, the last one
		return 0, false
	case index > imports:
		index--
	}
	return index, index < f.functions
}

// Frame translates a line of wazero's stack trace to the original module: the name of the function
// replaces its index, as in "main.run" and "(i32) i32" for "$17(i32) i32". It returns "" for a
// function that metering added, and the parts of other lines unchanged.
func (f *Facts) Frame(line string) (name, signature string) {
	if strings.HasPrefix(line, wasm.ReservedModule) {
		return "", ""
	}
	index, signature, ok := engine.SplitFrame(line)
	if !ok { // a function of the host
		at := strings.IndexByte(line, '(')
		if at < 0 {
			at = len(line)
		}
		return line[:at], line[at:]
	}
	function, ok := f.Original(index)
	if !ok {
		return "", ""
	}
	return f.Names.Function(function), signature
}

// encode returns the facts as they are stored on disk: numbers as uvarints, strings and
// lists preceded by their lengths. Decoding takes a twentieth of the time of a
// self-describing format, for each module at each start.
func (f *Facts) encode() []byte {
	var w factsWriter
	w.number(uint64(len(f.Outline.Imports)))
	for _, i := range f.Outline.Imports {
		w.text(i.Module)
		w.text(i.Name)
		w.funcType(i.Type)
	}
	w.number(uint64(len(f.Outline.Exports)))
	for _, e := range f.Outline.Exports {
		w.text(e.Name)
		w.text(e.Kind)
		w.funcType(e.Type)
	}
	w.number(f.Outline.MemoryMin)
	w.number(f.Outline.MemoryMax)
	w.number(uint64(f.functions))
	w.number(uint64(len(f.Globals)))
	for _, g := range f.Globals {
		w.text(g)
	}
	w.text(f.NotResettable)
	w.text(string(f.Names.text))
	w.number(uint64(len(f.Names.index)))
	at := uint32(0)
	for _, n := range f.Names.index {
		w.number(uint64(n.function))
		w.number(uint64(n.end - at))
		at = n.end
	}
	w.number(uint64(len(f.Data.Places)))
	for _, p := range f.Data.Places {
		w.number(uint64(p.At))
		w.number(uint64(p.Length))
	}
	w.text(string(f.Data.Bytes))
	return w
}

type factsWriter []byte

func (w *factsWriter) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *factsWriter) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *factsWriter) funcType(t verify.FuncType) {
	w.text(string(t.Params))
	w.text(string(t.Results))
}

var errFacts = errors.New("the facts of a module are not well formed")

// decodeFacts decodes the output of encode. The result shares memory with b. diskCache has verified
// that b is such output. decodeFacts nevertheless checks everything that could make the host panic.
func decodeFacts(b []byte) (*Facts, error) {
	r := factsReader{left: b}
	f := &Facts{Outline: &verify.Outline{}, Names: &Names{}}
	f.Outline.Imports = make([]verify.ImportInfo, r.count())
	for i := range f.Outline.Imports {
		f.Outline.Imports[i] = verify.ImportInfo{Module: string(r.bytes()), Name: string(r.bytes()), Type: r.funcType()}
	}
	f.Outline.Exports = make([]verify.ExportInfo, r.count())
	for i := range f.Outline.Exports {
		f.Outline.Exports[i] = verify.ExportInfo{Name: string(r.bytes()), Kind: string(r.bytes()), Type: r.funcType()}
	}
	f.Outline.MemoryMin, f.Outline.MemoryMax = r.number(), r.number()
	f.functions = uint32(r.number())
	if n := r.count(); n > 0 {
		f.Globals = make([]string, n)
	}
	for i := range f.Globals {
		f.Globals[i] = string(r.bytes())
	}
	f.NotResettable = string(r.bytes())
	f.Names.text = r.bytes()
	f.Names.index = make([]nameAt, r.count())
	at := uint64(0)
	for i := range f.Names.index {
		function, end := r.number(), at+r.number()
		if end < at || end > uint64(len(f.Names.text)) {
			return nil, errFacts
		}
		f.Names.index[i] = nameAt{uint32(function), uint32(at), uint32(end)}
		at = end
	}
	f.Data.Places = make([]image.Place, r.count())
	total := uint64(0)
	for i := range f.Data.Places {
		at, length := r.number(), r.number()
		if at > verify.MaxMemoryBytes || length > verify.MaxMemoryBytes || at+length > f.Outline.MemoryMin {
			return nil, errFacts
		}
		f.Data.Places[i] = image.Place{At: uint32(at), Length: uint32(length)}
		total += length
	}
	if f.Data.Bytes = r.bytes(); uint64(len(f.Data.Bytes)) != total {
		return nil, errFacts
	}
	if r.malformed || len(r.left) > 0 || f.Outline.MemoryMin > verify.MaxMemoryBytes {
		return nil, errFacts
	}
	return f, nil
}

// A factsReader reads the output of a factsWriter. If something is missing, it returns zero
// values and sets malformed.
type factsReader struct {
	left      []byte
	malformed bool
}

func (r *factsReader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.left, r.malformed = nil, true
		return 0
	}
	r.left = r.left[size:]
	return n
}

// count reads the number of items that follow, each of at least one byte.
func (r *factsReader) count() int {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.left, r.malformed = nil, true
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

func (r *factsReader) funcType() verify.FuncType {
	return verify.FuncType{Params: r.valueTypes(), Results: r.valueTypes()}
}

func (r *factsReader) valueTypes() []api.ValueType {
	b := r.bytes()
	if len(b) == 0 {
		return nil
	}
	return b
}
