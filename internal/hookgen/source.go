package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
	"github.com/agent-runner/agent-runner/internal/abitable"
)

// A source holds the data from which the outputs are generated.
type source struct {
	hooks   []hook
	imports []abitable.Import
	types   *abisource.Source
}

// A hook is a row of the table, with the method of the hook in the Go SDK.
type hook struct {
	abitable.Hook
	Go     string  // its name in Go: BeforeAgent
	method *method // in the Go SDK; nil for describe
	alone  bool    // the Go SDK has a function serveX, since the type in the method serves other hooks too
}

// A method is the method of a hook's interface in the Go SDK.
type method struct {
	params  []string // their types, after the context
	results []string // their types, before the error
	doc     string   // the first paragraph of the interface's comment, without its subject
}

// read collects the data from the sources below root.
func read(root string) (*source, error) {
	types, err := abisource.Read(filepath.Join(root, "abi"), filepath.Join(root, "internal/contract"))
	if err != nil {
		return nil, err
	}
	sdk := filepath.Join(root, "guest-sdk/go/middleware")
	methods, err := interfaces(filepath.Join(sdk, "hooks.go"))
	if err != nil {
		return nil, err
	}
	s := &source{imports: abitable.Imports(), types: types}
	for _, row := range abitable.Hooks() {
		h := hook{Hook: row, Go: camel(row.Name)}
		h.method = methods[h.Go]
		if h.method == nil && row.Name != "describe" {
			return nil, errors.New("guest-sdk/go/middleware/hooks.go has no interface " + h.Go + "Hook")
		}
		if types.Decl(row.Answer()) == nil {
			return nil, errors.New("packages abi and contract have no type " + row.Answer())
		}
		h.alone = declares(sdk, "serve"+h.Go)
		s.hooks = append(s.hooks, h)
	}
	return s, nil
}

// typ returns the qualified name of a type of the ABI.
func (s *source) typ(name string) string { return s.types.Decl(name).Qualified() }

// has reports whether a struct has a field called name of type typ, apart from embedded structs.
func (s *source) has(decl, name, typ string) bool {
	return slices.ContainsFunc(s.types.Decl(decl).Fields(), func(f abisource.Field) bool {
		return f.Name == name && f.Type.Name == typ
	})
}

// camel returns the Go name of a hook or an import.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		if word == "http" {
			word = "HTTP"
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func lowerCamel(name string) string {
	c := camel(name)
	return strings.ToLower(c[:1]) + c[1:]
}

// links replaces the brackets of links in a Go comment with backquotes.
var links = strings.NewReplacer("[", "`", "]", "`")

// interfaces returns the methods of hooks by the names of the hooks. The file at path has an
// interface with one method for each hook; its name is that of the hook, followed by Hook.
func interfaces(path string) (map[string]*method, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	out := map[string]*method{}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		spec := decl.Specs[0].(*ast.TypeSpec)
		name, isHook := strings.CutSuffix(spec.Name.Name, "Hook")
		if t, ok := spec.Type.(*ast.InterfaceType); ok && isHook {
			f := t.Methods.List[0].Type.(*ast.FuncType)
			doc, _, _ := strings.Cut(strings.TrimPrefix(decl.Doc.Text(), spec.Name.Name+" "), "\n\n")
			m := &method{doc: links.Replace(strings.TrimSuffix(strings.Join(strings.Fields(doc), " "), "."))}
			m.params = typesOf(fset, f.Params)[1:]
			m.results = typesOf(fset, f.Results)
			m.results = m.results[:len(m.results)-1]
			out[name] = m
		}
	}
	return out, nil
}

func typesOf(fset *token.FileSet, list *ast.FieldList) []string {
	var out []string
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			out = append(out, text(fset, f.Type))
		}
	}
	return out
}

func text(fset *token.FileSet, e ast.Expr) string {
	var b strings.Builder
	_ = printer.Fprint(&b, fset, e) // a builder does not fail
	return b.String()
}

// declares reports whether the package in dir declares a function.
func declares(dir, function string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is valid
	for _, path := range files {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
