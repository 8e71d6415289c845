package middleware

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/schema"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// fields are the configuration fields of a [Declaration]. A field that is absent from the
// configuration has the value it had when it was declared.
type fields struct {
	all    []field
	checks []ConfigureHook
}

type field struct {
	name   string
	schema schema.Schema
	reset  func()
	read   func(r *jsoncodec.Reader)
}

// add declares a field with a name and a schema. The function read decodes the field's value, which
// is then stored in *p.
func add[T any](d *Declaration, p *T, name string, s schema.Schema, read func(r *jsoncodec.Reader) T) {
	initial := *p
	d.fields.all = append(d.fields.all, field{
		name: name, schema: s,
		reset: func() { *p = initial },
		read:  func(r *jsoncodec.Reader) { *p = read(r) },
	})
}

// String declares a configuration key that sets *p. The key is the given name, and doc describes it
// in the JSON Schema.
func (d *Declaration) String(p *string, name, doc string) {
	add(d, p, name, schema.Schema{Kind: "string", Description: doc}, (*jsoncodec.Reader).Text)
}

// Bool is like [Declaration.String] for a boolean.
func (d *Declaration) Bool(p *bool, name, doc string) {
	add(d, p, name, schema.Schema{Kind: "boolean", Description: doc}, (*jsoncodec.Reader).Bool)
}

// Int is like [Declaration.String] for an integer.
func (d *Declaration) Int(p *int, name, doc string) {
	add(d, p, name, schema.Schema{Kind: "integer", Description: doc},
		func(r *jsoncodec.Reader) int { return int(r.Int()) })
}

// Float is like [Declaration.String] for a number.
func (d *Declaration) Float(p *float64, name, doc string) {
	add(d, p, name, schema.Schema{Kind: "number", Description: doc}, (*jsoncodec.Reader).Float)
}

// Strings is like [Declaration.String] for a list of strings.
func (d *Declaration) Strings(p *[]string, name, doc string) {
	initial := slices.Clone(*p)
	d.fields.all = append(d.fields.all, field{
		name:   name,
		schema: schema.Schema{Kind: "array", Description: doc, Items: &schema.Schema{Kind: "string"}},
		reset:  func() { *p = slices.Clone(initial) },
		read: func(r *jsoncodec.Reader) {
			*p = nil
			for r.Next() {
				*p = append(*p, r.Text())
			}
		},
	})
}

// Value is like [Declaration.String] for a JSON value of any type. The function read decodes the
// value; it is not called if the configuration does not have the key.
func Value[T any](d *Declaration, p *T, name, doc string, read func(r *jsoncodec.Reader) T) {
	add(d, p, name, schema.Schema{Description: doc}, read)
}

func (f *fields) schema() schema.Schema {
	s := schema.Schema{Kind: "object", Closed: true}
	for i := range f.all {
		s.Properties = append(s.Properties, schema.Property{Name: f.all[i].name, Schema: &f.all[i].schema})
	}
	return s
}

// configure sets the fields from a configuration and then calls the declared Configure hooks. It
// first resets all fields to their initial values. Unknown and duplicate keys are errors.
func (f *fields) configure(ctx *Context, config abi.JSON) error {
	for i := range f.all {
		f.all[i].reset()
	}
	var unknown, known []string
	seen := make([]bool, len(f.all))
	r := jsoncodec.NewReader(config)
	for r.Key() {
		i := slices.IndexFunc(f.all, func(one field) bool { return one.name == r.Name() })
		if i < 0 {
			unknown = append(unknown, r.Name())
			r.Skip()
			continue
		}
		if seen[i] {
			r.Refuse("is duplicated")
		}
		seen[i] = true
		f.all[i].read(r)
	}
	if err := r.Err(); err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + err.Error()}
	}
	if len(unknown) > 0 {
		for i := range f.all {
			known = append(known, f.all[i].name)
		}
		return unknownKeys(unknown, known)
	}
	for _, h := range f.checks {
		if err := h.Configure(ctx); err != nil {
			return err
		}
	}
	return nil
}
