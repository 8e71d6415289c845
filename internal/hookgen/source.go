package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

// A source is what the outputs are generated from.
type source struct {
	hooks   []hook
	imports []abitable.Import
	home    map[string]string // the package of a type of the ABI: abi or contract
}

// A hook is a row of the table with what the sources say of the hook.
type hook struct {
	abitable.Hook
	Go     string   // its name in Go: BeforeAgent
	method *method  // in the Go SDK; nil for describe
	in     []*field // of the input
	out    []*field // of the answer
	alone  bool     // the Go SDK has a function serveX, because the type of the method serves other hooks too
}

// A method is the method of a hook's interface in the Go SDK.
type method struct {
	params  []string // their types, after the context
	results []string // their types, before the error
	doc     string   // the first paragraph of the interface's comment, without its subject
}

// A field is a field of an input or an answer.
type field struct{ name, key, typ string }

func read(root string) (*source, error) {
	s := &source{imports: abitable.Imports(), home: map[string]string{}}
	sdk := filepath.Join(root, "guest-sdk/go/middleware")
	methods, err := interfaces(filepath.Join(sdk, "hooks.go"))
	if err != nil {
		return nil, err
	}
	types := map[string][]*field{}
	for home, dir := range map[string]string{"abi": "abi", "contract": "internal/contract"} {
		found, err := structs(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		for name, fields := range found {
			types[name], s.home[name] = fields, home
		}
	}
	for _, row := range abitable.Hooks() {
		h := hook{Hook: row, Go: camel(row.Name)}
		h.method, h.in, h.out = methods[h.Go], types[row.Input()], types[row.Answer()]
		if h.method == nil && row.Name != "describe" {
			return nil, errors.New("guest-sdk/go/middleware/hooks.go has no interface " + h.Go + "Hook")
		}
		if types[row.Answer()] == nil {
			return nil, errors.New("packages abi and contract have no type " + row.Answer())
		}
		h.alone = declares(sdk, "serve"+h.Go)
		s.hooks = append(s.hooks, h)
	}
	return s, nil
}

// typ returns a type of the ABI as other packages than its own write it.
func (s *source) typ(name string) string { return s.home[name] + "." + name }

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

// links writes the links of a Go comment as code.
var links = strings.NewReplacer("[", "`", "]", "`")

// interfaces returns the methods of the interfaces in a file whose names end in Hook.
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

// structs returns the fields of the structs of a package, without those of embedded structs.
func structs(dir string) (map[string][]*field, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset, out := token.NewFileSet(), map[string][]*field{}
	for _, path := range files {
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if t, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = fieldsOf(fset, t)
			}
			return true
		})
	}
	return out, nil
}

func fieldsOf(fset *token.FileSet, t *ast.StructType) []*field {
	out := []*field{}
	for _, f := range t.Fields.List {
		tag := ""
		if f.Tag != nil {
			tag, _ = strconv.Unquote(f.Tag.Value)
		}
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		for _, name := range f.Names {
			out = append(out, &field{name.Name, key, text(fset, f.Type)})
		}
	}
	return out
}

// has reports whether one of the fields has a name and a type.
func has(fields []*field, name, typ string) bool {
	for _, f := range fields {
		if f.name == name && f.typ == typ {
			return true
		}
	}
	return false
}

// declares reports whether a package has a function.
func declares(dir, function string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is valid
	for _, path := range files {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
