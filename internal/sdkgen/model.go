package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/contract"
)

// A model describes packages abi and contract for the SDKs.
type model struct {
	hooks   []hook
	structs []*structure // sorted by dependency
}

// A hook is the name of a hook and the types of its input and answer.
type hook struct{ name, input, answer string }

// A structure is a type that is encoded as a JSON object.
type structure struct {
	name, doc string
	fields    []field
	open      bool // stores unknown fields
}

// A kind is the kind of a field's type.
type kind int

const (
	text   kind = iota
	number      // int
	large       // int64
	boolean
	raw     // any JSON
	members // an object with arbitrary keys
	object  // a structure
	texts   // a list of strings
	objects // a list of structures
)

type field struct {
	key, doc string
	kind     kind
	of       string // name of the structure
	// optional fields distinguish absent from empty values. omitted fields are not encoded
	// if they are empty.
	optional, omitted bool
}

// special lists the types with a handwritten codec in each SDK.
var special = map[string]bool{"Content": true, "ListPatch": true, "ToolsPatch": true}

// roots lists the types of the ABI that are neither a hook's input nor its answer.
var roots = []string{
	"Error",
	"RequestPatch",
	"ModelReply",
	"CallPatch",
	"ToolReply",
	"ToolRequest",
	"HTTPRequest",
	"HTTPResponse",
	"Sent",
	"Received",
	"LocalValue",
	"LocalVersion",
	"Custom",
	"Event",
	"Approval",
}

// A reader parses the sources of packages abi and contract.
type reader struct {
	specs map[string]*ast.TypeSpec
	docs  map[string]*ast.CommentGroup
	done  map[string]bool
	model *model
}

func read(dirs []string) (*model, error) {
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no Go package in %s", dir)
		}
		files = append(files, found...)
	}
	r := &reader{
		specs: map[string]*ast.TypeSpec{},
		docs:  map[string]*ast.CommentGroup{},
		done:  map[string]bool{},
		model: &model{},
	}
	fset := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		r.declarations(file)
	}
	for _, h := range contract.Hooks() {
		in, answer := contract.Exchange(h)
		x := hook{string(h), reflect.TypeOf(in).Elem().Name(), reflect.TypeOf(answer).Elem().Name()}
		r.model.hooks = append(r.model.hooks, x)
		for _, name := range []string{x.input, x.answer} {
			if name != "" { // describe has no input
				r.need(name)
			}
		}
	}
	for _, name := range roots {
		r.need(name)
	}
	return r.model, nil
}

func (r *reader) declarations(file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.TypeSpec)
			r.specs[spec.Name.Name] = spec
			r.docs[spec.Name.Name] = decl.Doc
			if spec.Doc != nil {
				r.docs[spec.Name.Name] = spec.Doc
			}
		}
	}
}

// need adds a structure after those that it contains.
func (r *reader) need(name string) {
	if r.done[name] {
		return
	}
	r.done[name] = true
	if special[name] {
		for _, held := range map[string][]string{
			"Content": {"Part"}, "ListPatch": {"Splice", "Message"}, "ToolsPatch": {"Tool"},
		}[name] {
			r.need(held)
		}
		r.model.structs = append(r.model.structs, &structure{name: name, doc: comment(r.docs[name])})
		return
	}
	s := &structure{name: name, doc: comment(r.docs[name])}
	r.fields(s, r.specs[name].Type.(*ast.StructType))
	for _, f := range s.fields {
		if f.of != "" {
			r.need(f.of)
		}
	}
	r.model.structs = append(r.model.structs, s)
}

func (r *reader) fields(s *structure, t *ast.StructType) {
	for _, f := range t.Fields.List {
		if len(f.Names) == 0 {
			r.fields(s, r.specs[f.Type.(*ast.Ident).Name].Type.(*ast.StructType))
			continue
		}
		if f.Names[0].Name == "Unknown" {
			s.open = true
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		doc := f.Doc
		if doc == nil {
			doc = f.Comment
		}
		x := field{key: key, doc: fieldComment(f.Names[0].Name, key, comment(doc)), omitted: options != ""}
		r.typeOf(&x, f.Type)
		if options == "omitzero" && (x.kind == texts || x.kind == objects) {
			x.optional = true
		}
		s.fields = append(s.fields, x)
	}
}

// typeOf sets the kind of a field.
func (r *reader) typeOf(f *field, t ast.Expr) {
	switch t := t.(type) {
	case *ast.StarExpr:
		r.typeOf(f, t.X)
		f.optional = true
	case *ast.ArrayType:
		r.typeOf(f, t.Elt)
		if f.kind == text {
			f.kind = texts
		} else {
			f.kind = objects
		}
	case *ast.MapType:
		f.kind = members
	case *ast.SelectorExpr: // a type of package abi in package contract
		r.typeOf(f, t.Sel)
	case *ast.Ident:
		spec := r.specs[t.Name]
		switch {
		case t.Name == "JSON":
			f.kind = raw
		case t.Name == "string":
			f.kind = text
		case t.Name == "bool":
			f.kind = boolean
		case t.Name == "int":
			f.kind = number
		case t.Name == "int64":
			f.kind = large
		case special[t.Name]:
			f.kind, f.of = object, t.Name
		default:
			if _, ok := spec.Type.(*ast.StructType); !ok {
				r.typeOf(f, spec.Type)
				return
			}
			f.kind, f.of = object, t.Name
		}
	default:
		panic(fmt.Sprintf("unsupported field type %T", t))
	}
}

var (
	link  = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	upper = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// comment returns the text of a comment in one line.
func comment(doc *ast.CommentGroup) string {
	return link.ReplaceAllString(strings.Join(strings.Fields(doc.Text()), " "), "$1")
}

// fieldComment replaces the field's Go name at the start of its comment by its JSON key.
func fieldComment(name, key, doc string) string {
	if rest, ok := strings.CutPrefix(doc, name+" "); ok {
		return key + " " + rest
	}
	return doc
}

// snake converts a Go name to snake case.
func snake(name string) string {
	return strings.ToLower(upper.ReplaceAllString(name, "${1}${3}_${2}${4}"))
}
