package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// module is the path of the repository's main Go module. The paths of the adapters' modules begin
// with it.
const module = "github.com/agent-runner/agent-runner"

// skipped lists the directories whose packages are not public or belong to the SDKs.
var skipped = []string{"internal", "testdata", "node_modules", "build", "bench", "examples", "example", "guest-sdk"}

// public reports whether the identifiers of a package count.
func public(pkg string) bool {
	rest, ok := strings.CutPrefix(pkg, module+"/")
	return ok &&
		!slices.ContainsFunc(strings.Split(rest, "/"), func(dir string) bool { return slices.Contains(skipped, dir) })
}

// collect returns the exported identifiers of each public package, by the package's path relative
// to module. dirs lists the directories of the Go modules. collect reads only the files that are
// built for Linux.
func collect(dirs ...string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, dir := range dirs {
		found, err := load(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if names := identifiers(p); len(names) > 0 {
				out[strings.TrimPrefix(p.Path(), module+"/")] = names
			}
		}
	}
	return out, nil
}

// load returns the public packages of the Go module in dir. It builds them.
func load(dir string) (out []*types.Package, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	var names []string
	files := map[string]string{} // the files of export data, by package path
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue // unsafe
		}
		files[words[0]] = words[2]
		if words[1] != "main" && public(words[0]) {
			names = append(names, words[0])
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	for _, name := range names {
		p, err := from.Import(name)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// identifiers returns the exported identifiers of a package: T and T.M for a type and a method.
func identifiers(p *types.Package) (out []string) {
	for _, name := range p.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		out = append(out, name)
		if t, ok := p.Scope().Lookup(name).(*types.TypeName); ok {
			for _, m := range methods(t.Type()) {
				out = append(out, name+"."+m)
			}
		}
	}
	return out
}

// methods returns the names of a type's exported methods, including promoted ones. An alias has the
// methods of the type that it names. The result omits methods of interfaces and of the standard
// library's types. It also omits methods promoted from an exported type of a public package: that
// package counts them.
func methods(t types.Type) (out []string) {
	if types.IsInterface(t) {
		return nil
	}
	set := types.NewMethodSet(types.NewPointer(t))
	for i := range set.Len() {
		m := set.At(i)
		from := m.Obj().Pkg().Path()
		countsThere := len(m.Index()) > 1 && public(from) && exportedReceiver(m.Obj())
		if m.Obj().Exported() && !standard(from) && !countsThere {
			out = append(out, m.Obj().Name())
		}
	}
	return out
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(method types.Object) bool {
	t := method.(*types.Func).Signature().Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Exported()
}

// standard reports whether a package belongs to the standard library.
func standard(pkg string) bool {
	host, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(host, ".")
}
