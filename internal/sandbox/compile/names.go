package compile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
)

// Limits of the stored function names, because a module can choose any names.
const (
	maxNames     = 50_000
	maxNameBytes = 128
	maxNamesSize = 2 << 20
)

// Names are the names of a module's functions, for stack traces. wazero does not get them. If some
// names cannot be read, the names before them are used.
type Names struct {
	text  []byte // all names, concatenated
	index []nameAt
}

type nameAt struct {
	function uint32 // ascending
	at, end  uint32 // in text
}

// Function returns the name of a function, or its index as "$17" if it has no name.
func (n *Names) Function(function uint32) string {
	i, ok := slices.BinarySearchFunc(n.index, function, func(e nameAt, f uint32) int { return int(e.function) - int(f) })
	if !ok || n.index[i].at == n.index[i].end {
		return fmt.Sprintf("$%d", function)
	}
	return string(n.text[n.index[i].at:n.index[i].end])
}

// readNames reads the function names of a module that the decoder has accepted, so that it
// is a sequence of sections.
func readNames(module []byte) *Names {
	r := nameReader{b: module[min(8, len(module)):]}
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		section := nameReader{b: r.bytes()}
		if id == 0 && string(section.bytes()) == "name" {
			return readNameSection(&section)
		}
	}
	return &Names{}
}

func readNameSection(r *nameReader) *Names {
	const functionNames = 1
	for len(r.b) > 0 && !r.bad {
		id := r.byte()
		if sub := (nameReader{b: r.bytes()}); id == functionNames {
			return readFunctionNames(&sub)
		}
	}
	return &Names{}
}

func readFunctionNames(r *nameReader) *Names {
	n := &Names{}
	last := int64(-1)
	for range min(r.uint(), maxNames) {
		function, name := r.uint(), r.bytes()
		if r.bad || int64(function) <= last || len(n.text) > maxNamesSize {
			break // the names so far are good
		}
		last = int64(function)
		if len(name) > maxNameBytes {
			name = name[:maxNameBytes]
		}
		if !utf8.Valid(name) || strings.ContainsFunc(string(name), func(c rune) bool { return !strconv.IsPrint(c) }) {
			name = text.Escape(name)
		}
		at := uint32(len(n.text))
		n.text = append(n.text, name...)
		n.index = append(n.index, nameAt{function, at, uint32(len(n.text))})
	}
	n.text, n.index = slices.Clip(n.text), slices.Clip(n.index)
	return n
}

// nameReader reads the parts of the name section. After a mistake it sets bad and returns
// zero values.
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
