// Package abisource reads the types of the ABI from the Go sources of packages abi and contract,
// for the generators. Package abitable has the hooks and imports.
package abisource

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A Source has the declarations of the ABI's types.
type Source struct{ decls map[string]*Decl }

// A Decl is the declaration of a type of the ABI.
type Decl struct {
	Name    string
	Package string // "abi" or "contract"
	Doc     string // the comment, in one line

	source *Source
	expr   ast.Expr
}

// A Field is a field of a struct.
type Field struct {
	Name string
	Path string // the selector from the outer struct, such as Common.Run for a field of an embedded struct
	Key  string // the key in JSON
	Omit string // "omitempty", "omitzero" or ""
	Doc  string // the comment in one line, with the key instead of the name at its start
	Type *Type
	// Embedded is set for an embedded struct. The struct has no key, because JSON has its fields in
	// the outer object.
	Embedded bool
}

// Read reads the type declarations in the directories of packages abi and contract.
func Read(abiDir, contractDir string) (*Source, error) {
	s := &Source{map[string]*Decl{}}
	for _, p := range []struct{ name, dir string }{{"abi", abiDir}, {"contract", contractDir}} {
		files, err := Parse(p.dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			for _, d := range file.Decls {
				if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
					s.declare(p.name, decl)
				}
			}
		}
	}
	return s, nil
}

// Parse parses the Go files in a directory, except tests.
func Parse(dir string) ([]*ast.File, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no Go package in %s", dir)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (s *Source) declare(pkg string, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		t := spec.(*ast.TypeSpec)
		doc := t.Doc
		if doc == nil {
			doc = decl.Doc
		}
		s.decls[t.Name.Name] = &Decl{t.Name.Name, pkg, oneLine(doc), s, t.Type}
	}
}

// Decl returns the declaration of the type called name, or nil if neither package has one.
func (s *Source) Decl(name string) *Decl { return s.decls[name] }

// Qualified returns the type's name with its package, such as abi.Message.
func (d *Decl) Qualified() string { return d.Package + "." + d.Name }

// Type returns the type that d declares.
func (d *Decl) Type() *Type { return d.source.typeOf(ast.NewIdent(d.Name)) }

// Open reports whether d, which must be a struct, stores unknown fields.
func (d *Decl) Open() bool {
	for _, f := range d.expr.(*ast.StructType).Fields.List {
		if len(f.Names) > 0 && f.Names[0].Name == "Unknown" {
			return true
		}
	}
	return false
}

// Fields returns the fields of a struct that appear in its JSON, in their order. It panics if d is
// not a struct.
func (d *Decl) Fields() []Field {
	var out []Field
	for _, f := range d.expr.(*ast.StructType).Fields.List {
		if len(f.Names) == 0 {
			name := f.Type.(*ast.Ident).Name
			out = append(out, Field{Name: name, Path: name, Type: d.source.typeOf(f.Type), Embedded: true})
			continue
		}
		doc := f.Doc
		if doc == nil {
			doc = f.Comment
		}
		for _, n := range f.Names {
			name := n.Name
			if key, omit := keyOf(name, f.Tag); n.IsExported() && key != "-" {
				out = append(out, Field{name, name, key, omit, fieldDoc(name, key, doc), d.source.typeOf(f.Type), false})
			}
		}
	}
	return out
}

// Flat returns the fields of a struct like Fields, but replaces each embedded struct by its fields.
func (d *Decl) Flat() []Field {
	var out []Field
	for _, f := range d.Fields() {
		if !f.Embedded {
			out = append(out, f)
			continue
		}
		for _, inner := range d.source.Decl(f.Name).Flat() {
			inner.Path = f.Name + "." + inner.Path
			out = append(out, inner)
		}
	}
	return out
}

// keyOf returns a field's JSON key and the option after it in the tag, such as "omitempty".
func keyOf(name string, tag *ast.BasicLit) (key, omit string) {
	if tag == nil {
		return name, ""
	}
	text, _ := strconv.Unquote(tag.Value) // the parser has accepted the tag
	key, omit, _ = strings.Cut(reflect.StructTag(text).Get("json"), ",")
	return cmp.Or(key, name), omit
}

var link = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// oneLine returns the text of a comment in one line, without the brackets of links.
func oneLine(doc *ast.CommentGroup) string {
	return link.ReplaceAllString(strings.Join(strings.Fields(doc.Text()), " "), "$1")
}

func fieldDoc(name, key string, doc *ast.CommentGroup) string {
	text := oneLine(doc)
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		return key + " " + rest
	}
	return text
}
