package sandbox

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ImportInfo is one function that a module imports: something it can do.
type ImportInfo struct {
	Module, Name string
	Type         FuncType
}

// ExportInfo is one thing that a module exports.
type ExportInfo struct {
	Name string
	Kind string   // "func", "memory", "table" or "global"
	Type FuncType // of a func
}

// shape is what the outside of a module looks like.
type shape struct {
	imports     []ImportInfo
	exports     []ExportInfo // sorted by name
	otherImport string       // "memory env.memory": an import that is no function; empty if there is none
	memoryMin   uint64       // bytes
	memoryMax   uint64       // bytes; what the module declares, or 4 GiB
	hasMemory   bool         // it exports its memory as "memory"
}

// funcType is the type of an exported function.
func (m *shape) funcType(export string) (FuncType, bool) {
	i, ok := slices.BinarySearchFunc(m.exports, export, func(e ExportInfo, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !ok || m.exports[i].Kind != "func" {
		return FuncType{}, false
	}
	return m.exports[i].Type, true
}

// looksLike tells what bytes are that are no WebAssembly module, or "".
func looksLike(b []byte) (what, fix string) {
	module := []byte("\x00asm\x01\x00\x00\x00")
	switch {
	case bytes.HasPrefix(b, module):
		return "", ""
	case len(b) == 0:
		return "is empty", "build the module again"
	case bytes.HasPrefix(b, []byte("\x00asm")):
		if len(b) >= 8 && b[6] == 1 {
			return "is a WebAssembly component", "build a core module: GOOS=wasip1, wasm32-wasip1 or wasm32-unknown-unknown, not wasip2"
		}
		return "is WebAssembly of an unknown binary version", "build it as version 1 of the binary format"
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "is compressed with gzip", "unpack it first"
	case bytes.HasPrefix(b, []byte("\x28\xb5\x2f\xfd")):
		return "is compressed with zstd", "unpack it first"
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		return "is a zip archive", "unpack it first"
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return "is a native program (ELF)", "build it for WebAssembly: GOOS=wasip1 GOARCH=wasm, or --target wasm32-wasip1"
	case bytes.HasPrefix(b, []byte("\xcf\xfa\xed\xfe")):
		return "is a native program (Mach-O)", "build it for WebAssembly: GOOS=wasip1 GOARCH=wasm, or --target wasm32-wasip1"
	case bytes.HasPrefix(b, []byte("MZ")):
		return "is a native program (PE)", "build it for WebAssembly: GOOS=wasip1 GOARCH=wasm, or --target wasm32-wasip1"
	case bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("(module")), bytes.HasPrefix(b, []byte(";;")):
		return "is WebAssembly text", "translate it with wat2wasm"
	case bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("<")):
		return "is a web page or XML", "check where it was downloaded from"
	default:
		return "is not WebAssembly", "a module begins with the bytes 00 61 73 6d"
	}
}

// verify holds a module's outside against the surface. It knows nothing of
// limits, which differ from load to load.
func (s *surface) verify(m *shape) error {
	if m.otherImport != "" {
		return &RefusedError{
			Reason: "imports " + m.otherImport + ", but only functions can be imported",
			Fix:    "let the module define and export its own memory, tables and globals",
		}
	}
	for _, imp := range m.imports {
		if err := s.verifyImport(imp); err != nil {
			return err
		}
	}
	if !m.hasMemory {
		return &RefusedError{
			Reason: `does not export its memory as "memory"`,
			Fix:    "in C: -Wl,--export-memory; in WebAssembly text: (memory (export \"memory\") 1)",
		}
	}
	for _, exp := range m.exports {
		want, known := s.checkExport(exp.Name)
		if exp.Name == initialize {
			want, known = FuncType{}, true
		}
		switch {
		case !known:
		case exp.Kind != "func":
			return &RefusedError{Reason: fmt.Sprintf("exports %s as a %s; want a function %v", exp.Name, exp.Kind, want)}
		case !exp.Type.Equal(want):
			return &RefusedError{Reason: fmt.Sprintf("%s: want %v, got %v", exp.Name, want, exp.Type)}
		}
	}
	return nil
}

func (s *surface) verifyImport(imp ImportInfo) error {
	functions, ok := s.modules[imp.Module]
	if !ok {
		return s.unknownModule(imp)
	}
	want, ok := functions[imp.Name]
	if !ok {
		names := make([]string, 0, len(functions))
		for name := range functions {
			names = append(names, name)
		}
		owner := s.name
		if imp.Module == wasiModule {
			owner = "WASI preview 1"
		}
		refused := &RefusedError{Reason: fmt.Sprintf("imports %s.%s, which %s does not have", imp.Module, cut(imp.Name, 64), owner)}
		if near := nearest(imp.Name, names); near != "" {
			refused.Fix = "did you mean " + near + "?"
		}
		return refused
	}
	if !want.Type().Equal(imp.Type) {
		return &RefusedError{Reason: fmt.Sprintf("imports %s.%s as %v, want %v", imp.Module, imp.Name, imp.Type, want.Type())}
	}
	return nil
}

// unknownModule explains an import of a module that the surface does not have.
// A name that differs from a known one in its version only gets an answer of
// its own, for that is what authors will meet.
func (s *surface) unknownModule(imp ImportInfo) error {
	module := cut(imp.Module, 64)
	family, version, versioned := cutVersion(imp.Module)
	modules := make([]string, 0, len(s.modules))
	for known := range s.modules {
		modules = append(modules, known)
		knownFamily, knownVersion, ok := cutVersion(known)
		if ok && versioned && family == knownFamily {
			return &RefusedError{
				Reason: fmt.Sprintf("imports %s: it asks for ABI version %d; this host speaks version %d", module, version, knownVersion),
				Fix:    fmt.Sprintf("build it with an SDK for version %d", knownVersion),
			}
		}
	}
	slices.Sort(modules)
	refused := &RefusedError{
		Reason: fmt.Sprintf("imports %s.%s, but %s has no module %s", module, cut(imp.Name, 64), s.name, module),
		Fix:    "there are " + strings.Join(modules, ", "),
	}
	switch {
	case imp.Module == "env" && imp.Name == "abort":
		refused.Fix = "AssemblyScript: compile with --use abort=<a function of yours>"
	case imp.Module == "env":
		refused.Fix = "a C function was declared but not linked in, or lacks its import_module attribute; " + refused.Fix
	case strings.HasPrefix(imp.Module, "wasi_snapshot_preview2"), strings.HasPrefix(imp.Module, "wasi:"):
		refused.Fix = "build it for WASI preview 1"
	case imp.Module == "gojs":
		refused.Fix = "build it with GOOS=wasip1, not GOOS=js"
	}
	return refused
}

// cutVersion takes the version off a module name that ends with _v and a number.
func cutVersion(module string) (family string, version int, ok bool) {
	i := strings.LastIndex(module, "_v")
	if i < 0 {
		return "", 0, false
	}
	version, err := strconv.Atoi(module[i+2:])
	return module[:i], version, err == nil
}

// nearest finds the name that is at most a third of its letters away from name.
func nearest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	slices.Sort(names)
	best, bestDistance := "", len(name)
	for _, candidate := range names {
		if d := distance(name, candidate); d < bestDistance && d*3 <= max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
