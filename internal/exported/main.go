// Command exported counts the exported identifiers of the public Go packages outside the SDKs:
// functions, types, constants, variables, and methods of exported types. It compares them with the
// table in docs/stability.md.
//
//	go run ./internal/exported [-update]
//
// A package may have fewer identifiers than the table says, but then its number must be lowered:
// the numbers only shrink. -update lowers them. To publish more, change the table by hand, and say
// why in the commit.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The marks around the table.
const (
	begin = "<!-- exported: begin -->\n"
	end   = "<!-- exported: end -->\n"
)

// skipped has the directories whose packages are not public, or belong to the SDKs.
var skipped = []string{"internal", "testdata", "node_modules", "build", "bench", "examples", "guest-sdk"}

func main() {
	update := flag.Bool("update", false, "lower the numbers of the table")
	flag.Parse()
	if err := run("docs/stability.md", *update); err != nil {
		fmt.Fprintln(os.Stderr, "exported:", err)
		os.Exit(1)
	}
}

func run(doc string, update bool) error {
	found, err := count(".")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no marks around the table", doc)
	}
	if err := compare(parse(old), found, update); err != nil || !update {
		return err
	}
	return os.WriteFile(doc, []byte(before+begin+table(found)+end+after), 0o644)
}

// compare returns an error if a package has more identifiers than allowed, or fewer and the table
// is not about to be lowered.
func compare(allowed, found map[string]int, update bool) error {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] > allowed[name] {
			return fmt.Errorf(
				"%s exports %d identifiers, at most %d are allowed: move what users do not need below internal",
				name,
				found[name],
				allowed[name],
			)
		}
	}
	if !update && !maps.Equal(allowed, found) {
		return fmt.Errorf("packages export less than docs/stability.md says: run go run ./internal/exported -update")
	}
	return nil
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\d+) \\|$")

func parse(text string) map[string]int {
	out := map[string]int{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	return out
}

func table(found map[string]int) string {
	var b strings.Builder
	b.WriteString("| Package | Exported identifiers |\n|---|---|\n")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", name, found[name])
		total += found[name]
	}
	fmt.Fprintf(&b, "| all | %d |\n", total)
	return b.String()
}

// count returns the number of exported identifiers by directory. It counts the files that build for
// a host on Linux.
func count(root string) (map[string]int, error) {
	target := build.Default
	target.GOOS, target.GOARCH, target.CgoEnabled = "linux", "amd64", false
	out := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if ok, err := target.MatchFile(filepath.Split(path)); err != nil || !ok {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if n := countFile(file); n > 0 {
			out[filepath.ToSlash(filepath.Dir(path))] += n
		}
		return nil
	})
	return out, err
}

func countFile(file *ast.File) (n int) {
	if file.Name.Name == "main" {
		return 0
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv.List[0].Type)) {
				n++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				n += countSpec(s)
			}
		}
	}
	return n
}

func countSpec(s ast.Spec) (n int) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			n++
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}

// exportedReceiver reports whether a method's receiver has an exported type.
func exportedReceiver(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.StarExpr:
		return exportedReceiver(t.X)
	case *ast.IndexExpr:
		return exportedReceiver(t.X)
	case *ast.Ident:
		return t.IsExported()
	default:
		return true
	}
}
