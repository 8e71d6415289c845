package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/symbol"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/truncate"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Limits on the stored function names, which the authors of modules choose. Sizes are in bytes. A mangled name may be
// longer than others, because it cannot be demangled after it was truncated.
const (
	maxNames        = 50_000
	maxNameBytes    = 200
	maxMangledBytes = 512
	maxNamesSize    = 2 << 20
)

// demangleTime bounds the processor time for the names of a module. The names of a large module take
// less than half of it.
const demangleTime = time.Second

// Names are the names of a module's functions, for stack traces. They are removed from the module that wazero
// compiles. If the list of names is malformed, the names before the error are used.
type Names struct {
	text  []byte // all names, concatenated
	index []nameAt
}

type nameAt struct {
	function uint32 // index of the function; ascending in Names.index
	at, end  uint32 // the range of the name in Names.text
}

// Function returns the name of a function, or its index as "$17" if it has no name.
func (n *Names) Function(function uint32) string {
	i, ok := slices.BinarySearchFunc(n.index, function, func(e nameAt, f uint32) int { return int(e.function) - int(f) })
	if !ok || n.index[i].at == n.index[i].end {
		return fmt.Sprintf("$%d", function)
	}
	return string(n.text[n.index[i].at:n.index[i].end])
}

// readNames reads the function names of a module.
func readNames(module []byte) *Names {
	n := &Names{}
	for function, name := range wasm.FunctionNames(module) {
		if len(n.index) == maxNames || len(n.text) > maxNamesSize {
			break
		}
		n.add(function, name)
	}
	n.text, n.index = slices.Clip(n.text), slices.Clip(n.index)
	return n
}

// add appends the name of a function, shortened and escaped.
func (n *Names) add(function uint32, name []byte) {
	limit := maxNameBytes
	if symbol.Mangled(string(name)) {
		limit = maxMangledBytes
	}
	name = truncate.Text(name, limit)
	if !utf8.Valid(name) || strings.ContainsFunc(string(name), func(c rune) bool { return !strconv.IsPrint(c) }) {
		name = text.Escape(name)
	}
	at := uint32(len(n.text))
	n.text = append(n.text, name...)
	n.index = append(n.index, nameAt{function, at, uint32(len(n.text))})
}

// readable returns the names of n with mangled names demangled by a child process in the directory
// dir. If the child crashes or exceeds a limit, which only crafted names cause, readable returns n
// unchanged. Any other error of [child.Pool.Run] is returned.
func (c *Compiler) readable(ctx context.Context, tenant, dir string, n *Names) (*Names, error) {
	var mangled []byte
	for _, e := range n.index {
		if name := string(n.text[e.at:e.end]); symbol.Mangled(name) {
			mangled = append(append(mangled, name...), '\n')
		}
	}
	if len(mangled) == 0 {
		return n, nil
	}
	job := child.Job{Name: symbol.JobName, Input: mangled, CPUTime: demangleTime}
	lines, err := c.children.Run(ctx, tenant, dir, job)
	var refused *verify.RefusedError
	switch {
	case errors.As(err, &refused):
		return n, nil
	case err != nil:
		return nil, err
	}
	out := &Names{}
	for _, e := range n.index {
		name := n.text[e.at:e.end]
		if symbol.Mangled(string(name)) {
			name, lines, _ = bytes.Cut(lines, []byte{'\n'})
		}
		if len(out.text) > maxNamesSize {
			break
		}
		out.add(e.function, name)
	}
	out.text, out.index = slices.Clip(out.text), slices.Clip(out.index)
	return out, nil
}
