// Package symbol converts function names that the compilers of Rust and C++ wrote to names for
// people: "guard::decide" for "_ZN5guard6decide17h0f5d1c2b3a495867E".
//
// Demangling a name of 1 KiB can take milliseconds, and the demangler has no limits, so that the names of a crafted
// module could take many seconds. A host therefore demangles the names of untrusted modules in a confined child
// process, as the job JobName.
package symbol

import (
	"bytes"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// JobName is the name of the job with which a child process demangles function names.
const JobName = "demangle"

// maxMangled is the maximum length in bytes of a name that Readable demangles. Names of Rust and
// C++ functions with many generic parameters exceed it; they are hard to read in any form.
const maxMangled = 1 << 10

// Mangled reports whether a name may be one that a compiler mangled.
func Mangled(name string) bool { return strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_Z") }

// Readable returns the demangled form of a name, without parameters, template parameters and hash. It
// returns other names, and those of more than 1 KiB, unchanged.
func Readable(name string) (readable string) {
	if !Mangled(name) || len(name) > maxMangled {
		return name
	}
	defer func() {
		if recover() != nil { // the demangler has bugs that a crafted name triggers
			readable = name
		}
	}()
	return demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.MaxLength(10))
}

// ReadableLines returns the readable form of each line of a list of names. The error is always nil.
func ReadableLines(names []byte) ([]byte, error) {
	out := make([]byte, 0, len(names))
	for line := range bytes.Lines(names) {
		name, ended := bytes.CutSuffix(line, []byte{'\n'})
		readable := Readable(string(name))
		if strings.Contains(readable, "\n") {
			readable = string(name)
		}
		if out = append(out, readable...); ended {
			out = append(out, '\n')
		}
	}
	return out, nil
}
