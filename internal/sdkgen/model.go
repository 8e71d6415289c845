package main

import (
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
	"github.com/agent-runner/agent-runner/internal/abitable"
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

// A kind classifies the types of fields.
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

// special lists the types with a handwritten codec in each SDK, with the types that they use.
var special = map[string][]string{
	"Content":    {"Part"},
	"ListPatch":  {"Splice", "Message"},
	"ToolsPatch": {"Tool"},
}

// A reader collects the structures that hooks and imports use.
type reader struct {
	source *abisource.Source
	done   map[string]bool
	model  *model
}

// read parses packages abi and contract and returns the structures that hooks and imports use.
func read(abiDir, contractDir string) (*model, error) {
	source, err := abisource.Read(abiDir, contractDir)
	if err != nil {
		return nil, err
	}
	r := &reader{source, map[string]bool{}, &model{}}
	for _, h := range abitable.Hooks() {
		r.model.hooks = append(r.model.hooks, hook{h.Name, h.Input(), h.Answer()})
		for _, name := range []string{h.Input(), h.Answer()} {
			if name != "" { // describe has no input
				r.need(name)
			}
		}
	}
	for _, root := range abisource.Roots() {
		if !root.GoOnly {
			r.need(root.Name)
		}
	}
	return r.model, nil
}

// need adds a structure after those that it contains.
func (r *reader) need(name string) {
	if r.done[name] {
		return
	}
	r.done[name] = true
	d := r.source.Decl(name)
	s := &structure{name: name, doc: d.Doc}
	if special[name] != nil {
		for _, held := range special[name] {
			r.need(held)
		}
		r.model.structs = append(r.model.structs, s)
		return
	}
	s.open = d.Open()
	for _, f := range d.Flat() {
		s.fields = append(s.fields, fieldOf(f))
	}
	for _, f := range s.fields {
		if f.of != "" {
			r.need(f.of)
		}
	}
	r.model.structs = append(r.model.structs, s)
}

func fieldOf(f abisource.Field) field {
	x := field{key: f.Key, doc: f.Doc, omitted: f.Omit != ""}
	x.setType(f.Type)
	if f.Omit == "omitzero" && (x.kind == texts || x.kind == objects) {
		x.optional = true
	}
	return x
}

// setType sets the kind of a field from its type, and for a structure or a list of structures its
// name.
func (f *field) setType(t *abisource.Type) {
	switch t.Kind {
	case abisource.Pointer:
		f.setType(t.Elem)
		f.optional = true
	case abisource.Slice:
		f.setType(t.Elem)
		if f.kind == text {
			f.kind = texts
		} else {
			f.kind = objects
		}
	case abisource.Map:
		f.kind = members
	case abisource.Raw:
		f.kind = raw
	case abisource.String:
		f.kind = text
	case abisource.Bool:
		f.kind = boolean
	case abisource.Struct:
		f.kind, f.of = object, t.Name
	case abisource.Int:
		f.kind = number
		if t.Name == "int64" {
			f.kind = large
		}
	}
}

var upper = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// snake converts a Go name to snake case.
func snake(name string) string {
	return strings.ToLower(upper.ReplaceAllString(name, "${1}${3}_${2}${4}"))
}
