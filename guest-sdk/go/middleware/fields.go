package middleware

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
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
	schema schema
	reset  func()
	read   func(r *jsoncodec.Reader)
}

// add declares a field. read reads its value.
func add[T any](d *Declaration, p *T, name string, s schema, read func(r *jsoncodec.Reader) T) {
	initial := *p
	d.fields.all = append(d.fields.all, field{
		name: name, schema: s,
		reset: func() { *p = initial },
		read:  func(r *jsoncodec.Reader) { *p = read(r) },
	})
}

// String declares that the configuration can set *p with the key name. doc describes the
// field in the JSON Schema.
func (d *Declaration) String(p *string, name, doc string) {
	add(d, p, name, schema{kind: "string", description: doc}, (*jsoncodec.Reader).Text)
}

// Bool is like [Declaration.String] for a boolean.
func (d *Declaration) Bool(p *bool, name, doc string) {
	add(d, p, name, schema{kind: "boolean", description: doc}, (*jsoncodec.Reader).Bool)
}

// Int is like [Declaration.String] for an integer.
func (d *Declaration) Int(p *int, name, doc string) {
	add(d, p, name, schema{kind: "integer", description: doc}, func(r *jsoncodec.Reader) int { return int(r.Int()) })
}

// Float is like [Declaration.String] for a number.
func (d *Declaration) Float(p *float64, name, doc string) {
	add(d, p, name, schema{kind: "number", description: doc}, (*jsoncodec.Reader).Float)
}

// Strings is like [Declaration.String] for a list of strings.
func (d *Declaration) Strings(p *[]string, name, doc string) {
	initial := slices.Clone(*p)
	d.fields.all = append(d.fields.all, field{
		name:   name,
		schema: schema{kind: "array", description: doc, items: &schema{kind: "string"}},
		reset:  func() { *p = slices.Clone(initial) },
		read: func(r *jsoncodec.Reader) {
			*p = nil
			for r.Next() {
				*p = append(*p, r.Text())
			}
		},
	})
}

// Value is like [Declaration.String] for any JSON, which read reads. read is not called
// if the configuration does not have the key.
func (d *Declaration) Value(name, doc string, read func(r *jsoncodec.Reader)) {
	d.fields.all = append(d.fields.all, field{name: name, schema: schema{description: doc}, reset: func() {}, read: read})
}

func (f *fields) schema() schema {
	s := schema{kind: "object", closed: true}
	for i := range f.all {
		s.properties = append(s.properties, property{f.all[i].name, &f.all[i].schema})
	}
	return s
}

// configure reads a configuration. Fields that it does not have get their declared
// values.
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
