package wasm

import (
	"bytes"
	"fmt"
)

const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// sections maps section numbers to names, to the methods that read the sections, and to
// their order in a module, which differs from the order of the numbers.
var sections = [...]struct {
	name  string
	place int
	read  func(*decoder)
}{
	sectionCustom:    {"custom", 0, nil},
	sectionType:      {"type", 1, (*decoder).types},
	sectionImport:    {"import", 2, (*decoder).imports},
	sectionFunction:  {"function", 3, (*decoder).functions},
	sectionTable:     {"table", 4, (*decoder).tables},
	sectionMemory:    {"memory", 5, (*decoder).memories},
	sectionGlobal:    {"global", 6, (*decoder).globals},
	sectionExport:    {"export", 7, (*decoder).exports},
	sectionStart:     {"start", 8, (*decoder).start},
	sectionElement:   {"element", 9, (*decoder).elements},
	sectionDataCount: {"data count", 10, (*decoder).dataCount},
	sectionCode:      {"code", 11, (*decoder).code},
	sectionData:      {"data", 12, (*decoder).data},
}

// decoder is the state of decoding one module.
type decoder struct {
	reader
	limits Limits
	m      *Module

	functionTypes  []uint32 // type indices of all functions, imported functions first
	globalTypes    []GlobalType
	tableTypes     []Table
	imported       struct{ functions, globals int }
	mutableGlobals uint64
	memoryCount    int
	tableEntries   uint64
	elementCount   int // number of entries of all element segments so far
	announced      int // value of the data count section; -1 if there is none
	referable      []bool
	totals         codeTotals
	frames         []frame
}

// Decode decodes a module and checks it as the package comment describes. It skips custom
// sections. The error is always an *Error.
func Decode(b []byte, l Limits) (*Module, error) {
	d := &decoder{
		reader: reader{b: b, section: "header", function: -1},
		limits: l, m: &Module{}, announced: -1,
	}
	if d.header(); d.err == nil {
		d.body()
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.m, nil
}

func (d *decoder) header() {
	if n := len(d.b); n > d.limits.ModuleBytes {
		d.overLimit(0, "bytes", uint64(n), d.limits.ModuleBytes, " per module")
		return
	}
	if !bytes.HasPrefix(d.b, []byte("\x00asm")) {
		d.failAt(0, Malformed, "magic", 0, 0, "%s", notWasm(d.b))
		return
	}
	d.pos = 4
	version := d.bytes(4, "the version")
	switch {
	case d.err != nil:
	case bytes.Equal(version, []byte{1, 0, 0, 0}):
	case version[2] == 1 && version[3] == 0:
		d.failAt(
			4,
			Unsupported,
			"component",
			0,
			0,
			"this is a component, not a core module; build a core module (for wasip1 or wasm32-unknown-unknown)",
		)
	default:
		d.failAt(
			4,
			Unsupported,
			"version",
			uint64(version[0]),
			1,
			"the version of the binary format is % x, want 01 00 00 00",
			version,
		)
	}
}

// notWasm returns the error message for input that is not a WebAssembly module. It guesses the
// type of the input from its first bytes.
func notWasm(b []byte) string {
	text := bytes.TrimLeft(b[:min(len(b), 1024)], " \t\r\n")
	switch {
	case len(b) == 0:
		return "this is empty, want a WebAssembly module"
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "this is compressed with gzip; send the module itself"
	case bytes.HasPrefix(b, []byte("\x28\xb5\x2f\xfd")):
		return "this is compressed with zstd; send the module itself"
	case bytes.HasPrefix(b, []byte("BZh")), bytes.HasPrefix(b, []byte("\xfd7zXZ")):
		return "this is compressed; send the module itself"
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		return "this is a zip archive; send the module in it"
	case len(b) > 262 && string(b[257:262]) == "ustar":
		return "this is a tar archive; send the module in it"
	case bytes.HasPrefix(b, []byte("\x7fELF")),
		bytes.HasPrefix(b, []byte("MZ")),
		bytes.HasPrefix(b, []byte("\xcf\xfa\xed\xfe")):
		return "this is a program for another machine; build it for WebAssembly"
	case bytes.HasPrefix(text, []byte("(module")),
		bytes.HasPrefix(text, []byte("(component")),
		bytes.HasPrefix(text, []byte(";;")):
		return "this is WebAssembly text; assemble it first (wat2wasm)"
	}
	return fmt.Sprintf("this is not a WebAssembly module: it begins with % x, want 00 61 73 6d", b[:min(len(b), 4)])
}

// body reads all sections.
func (d *decoder) body() {
	all, last := d.b, sectionCustom
	for d.section = "module"; d.pos < len(all) && d.err == nil; d.section = "module" {
		at := d.pos
		id := int(d.u8("section"))
		if id >= len(sections) {
			d.unknownSection(at, id)
			return
		}
		d.section = sections[id].name
		size := d.u32("the section's size")
		if d.err == nil && uint64(size) > uint64(d.remaining()) {
			d.truncated("the section", uint64(size))
		}
		if d.err != nil {
			return
		}
		end := d.pos + int(size)
		if id == sectionCustom {
			d.pos = end
			continue
		}
		d.order(at, id, last)
		last = id
		d.b = all[:end]
		if d.err == nil {
			sections[id].read(d)
		}
		if d.err == nil && d.pos != end {
			d.failAt(
				d.pos,
				Malformed,
				"section size",
				uint64(size),
				uint64(int(size)-(end-d.pos)),
				"the section's size is %s bytes, but its contents take %s",
				grouped(uint64(size)),
				grouped(uint64(int(size)-(end-d.pos))),
			)
		}
		d.b = all
	}
	d.complete()
}

func (d *decoder) unknownSection(at, id int) {
	switch id {
	case 13:
		d.unsupported(at, "exception handling")
	case 14:
		d.unsupported(at, "string references")
	default:
		d.failAt(at, Malformed, "section", uint64(id), sectionDataCount, "there is no section with number %d", id)
	}
}

func (d *decoder) order(at, id, last int) {
	if sections[id].place > sections[last].place {
		return
	}
	if id == last {
		d.failAt(at, Malformed, "section", uint64(id), 0, "duplicate section")
		return
	}
	d.failAt(
		at,
		Malformed,
		"section",
		uint64(id),
		0,
		"the section comes after the %s section, but belongs before it",
		sections[last].name,
	)
}

// complete makes the checks that need the whole module: the number of bodies and the number of data
// segments must be those that earlier sections declare.
func (d *decoder) complete() {
	if d.err != nil {
		return
	}
	if f, c := len(d.m.Functions), len(d.m.Code); f != c {
		d.failAt(
			d.pos,
			Malformed,
			"functions",
			uint64(c),
			uint64(f),
			"%s functions are declared, but there are bodies for %s",
			grouped(uint64(f)),
			grouped(uint64(c)),
		)
	}
	if n := len(d.m.Data); d.announced >= 0 && d.announced != n {
		d.failAt(
			d.pos,
			Malformed,
			"data segments",
			uint64(n),
			uint64(d.announced),
			"the data count section announces %s data segments, but there are %s",
			grouped(uint64(d.announced)),
			grouped(uint64(n)),
		)
	}
}
