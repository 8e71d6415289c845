package sandbox

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// What is kept of a module's function names, which it can choose freely.
const (
	maxNames     = 50_000
	maxNameBytes = 128
	maxNamesSize = 2 << 20
)

// names are a module's own names of its functions, for stack traces. They do
// not reach wazero, and a module whose names cannot be read just has none.
type names struct {
	text  []byte // all names, one after the other
	index []nameAt
}

type nameAt struct {
	function uint32 // ascending
	at, end  uint32 // in text
}

// of returns the function's name, or "".
func (n *names) of(function uint32) string {
	i, ok := slices.BinarySearchFunc(n.index, function, func(e nameAt, f uint32) int { return int(e.function) - int(f) })
	if !ok {
		return ""
	}
	return string(n.text[n.index[i].at:n.index[i].end])
}

// frame makes a line of wazero's stack trace one of the module as it came: the
// function's name instead of its index, "main.run(i32) i32" for "$17(i32) i32".
// It is empty for a function that metering added.
func (c *code) frame(line string) string {
	if strings.HasPrefix(line, wasm.ReservedModule) {
		return ""
	}
	number, rest, ok := strings.Cut(strings.TrimPrefix(line, "$"), "(")
	if !ok || !strings.HasPrefix(line, "$") {
		return line
	}
	index, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return line
	}
	function, ok := c.original(uint32(index))
	if !ok {
		return ""
	}
	name := c.names.of(function)
	if name == "" {
		name = fmt.Sprintf("$%d", function)
	}
	return name + "(" + rest
}

// original is the index of a function in the module as it came. It has none if metering
// added it.
func (c *code) original(index uint32) (uint32, bool) {
	switch imports := uint32(len(c.shape.imports)); {
	case index == imports: // metering adds one import, the last one
		return 0, false
	case index > imports:
		index--
	}
	return index, index < c.functions
}

// readNames reads the function names of a module that has passed the decoder,
// and so is a sequence of sections.
func readNames(module []byte) *names {
	r := nameReader{b: module[min(8, len(module)):]}
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		section := nameReader{b: r.bytes()}
		if id == 0 && string(section.bytes()) == "name" {
			return readNameSection(&section)
		}
	}
	return &names{}
}

func readNameSection(r *nameReader) *names {
	const functionNames = 1
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		if sub := (nameReader{b: r.bytes()}); id == functionNames {
			return readFunctionNames(&sub)
		}
	}
	return &names{}
}

func readFunctionNames(r *nameReader) *names {
	n := &names{}
	last := int64(-1)
	for range min(r.uint(), maxNames) {
		function, name := r.uint(), r.bytes()
		if r.bad || int64(function) <= last || len(n.text) > maxNamesSize {
			break // what was read so far is good
		}
		last = int64(function)
		if len(name) > maxNameBytes {
			name = name[:maxNameBytes]
		}
		if !utf8.Valid(name) || strings.ContainsFunc(string(name), func(c rune) bool { return !strconv.IsPrint(c) }) {
			name = escape(name)
		}
		at := uint32(len(n.text))
		n.text = append(n.text, name...)
		n.index = append(n.index, nameAt{function, at, uint32(len(n.text))})
	}
	n.text, n.index = slices.Clip(n.text), slices.Clip(n.index)
	return n
}

// nameReader reads what the name section is made of. After a mistake it is bad,
// and gives zeros.
type nameReader struct {
	b   []byte
	bad bool
}

func (r *nameReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *nameReader) uint() uint32 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<32-1 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

func (r *nameReader) bytes() []byte {
	n := r.uint()
	if uint64(n) > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}
