package middleware

import (
	"reflect"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/schema"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A part is one middleware of a module.
type part struct {
	value  any // the value with the hooks; nil until it is built
	sample any // a value of the same type as value, to determine its hooks

	// prototype or build is set if the part has a configuration. prototype is a copy of the registered struct, into
	// which the configuration is decoded. build is a builder.
	prototype reflect.Value
	build     *builder
	schema    *schema.Schema // schema of the configuration
}

// A builder builds a middleware from its configuration.
type builder struct {
	config reflect.Type
	sample any
	build  func(config any) (any, error)
}

// Build returns a middleware that fn builds from the module's configuration, for cases
// where decoding into the middleware's exported fields is not enough. M is a concrete
// type with the hooks. C is any type that JSON can be decoded into, usually a struct.
func Build[C, M any](fn func(config C) (M, error)) Middleware {
	var sample M
	return &builder{
		config: reflect.TypeFor[C](),
		sample: sample,
		build:  func(config any) (any, error) { return fn(*config.(*C)) },
	}
}

// newPart returns the part for mw. It panics if mw is not a middleware or has a configuration that
// JSON cannot represent.
func newPart(mw Middleware) *part {
	if b, ok := mw.(*builder); ok {
		if b.sample == nil {
			panic(
				"middleware: Build needs a function that returns a concrete type, not an interface: its hooks must be known before it is called",
			)
		}
		check(b.sample)
		return &part{sample: b.sample, build: b, schema: (&schema.Maker{}).Schema(b.config)}
	}
	check(mw)
	p := &part{value: mw, sample: mw}
	v := reflect.ValueOf(mw)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Kind() != reflect.Struct {
		return p
	}
	if v.IsNil() {
		panic("middleware: " + v.Type().String() + " is nil: register &" + v.Type().Elem().String() + "{}")
	}
	if len(schema.Keys(v.Type().Elem())) == 0 {
		return p
	}
	maker := schema.Maker{}
	p.schema = maker.Schema(v.Type().Elem())
	if maker.Unfit != nil {
		panic("middleware: " + v.Type().String() + " cannot be configured: values of type " + maker.Unfit.String() +
			" are not in JSON. Tag fields that are no configuration `json:\"-\"`")
	}
	p.prototype = reflect.New(v.Type().Elem()).Elem()
	p.prototype.Set(v.Elem())
	renew(p.prototype, 0)
	return p
}

func (p *part) name() string { return reflect.TypeOf(p.sample).String() }

func (p *part) takesConfig() bool { return p.build != nil || p.prototype.IsValid() }

// configType returns the type of the part's configuration.
func (p *part) configType() reflect.Type {
	if p.build != nil {
		return p.build.config
	}
	return p.prototype.Type()
}

// configure decodes and checks the configuration. It first clears the state that earlier
// calls left in the module.
func (m *Module) configure(host Host, b []byte) (abijson.Writable, error) {
	var in contract.ConfigureInput
	if err := abijson.Read(b, (*abijson.ConfigureInput)(&in)); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "input: " + err.Error()}
	}
	m.lists = [2]listCache{}
	for i := range m.served {
		if s := &m.served[i]; s.server != nil {
			s.called = nil
		}
	}
	config := in.Config
	if null(config) {
		config = abi.JSON("{}")
	}
	if err := m.config.configure(&Context{Entry: in.Entry, host: host}, config); err != nil {
		return nil, err
	}
	m.collect()
	return &abijson.ConfigureAnswer{}, nil
}

// byType is the [configurer] of a module whose configuration is derived from the types of its
// middlewares.
type byType struct {
	m      *Module
	target *part // the part with the configuration; nil if there is none
}

func (c byType) configure(ctx *Context, config abi.JSON) error {
	var err error
	if c.target == nil {
		err = readConfig(config, &struct{}{})
	} else {
		err = c.target.configure(config)
	}
	for _, p := range c.m.parts {
		if h, ok := p.value.(ConfigureHook); ok && err == nil {
			err = h.Configure(ctx)
		}
	}
	return err
}

func (p *part) configure(config abi.JSON) error {
	fresh := reflect.New(p.configType())
	if p.build == nil { // absent values keep their registered defaults
		fresh.Elem().Set(p.prototype)
		renew(fresh.Elem(), 0)
	}
	if err := readConfig(config, fresh.Interface()); err != nil {
		return err
	}
	if p.build != nil {
		p.value = nil
		value, err := p.build.build(fresh.Interface())
		if err == nil {
			p.value = value
		}
		return err
	}
	reflect.ValueOf(p.value).Elem().Set(fresh.Elem())
	return nil
}

// maxDepth is the maximum nesting depth of a registered middleware's value.
const maxDepth = 100

// renew replaces the slices, maps and pointers in v that JSON could write into with copies, so that
// decoding into v does not change the value it was copied from. It panics if v is nested deeper
// than maxDepth; depth is the depth of v itself.
func renew(v reflect.Value, depth int) {
	if depth > maxDepth {
		panic("middleware: " + v.Type().String() + " cannot be configured: it is nested too deeply or cyclic." +
			" Tag fields that are no configuration `json:\"-\"`")
	}
	kind := v.Kind()
	switch kind {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return
		}
	}
	fresh := v
	switch kind {
	case reflect.Pointer:
		fresh = reflect.New(v.Type().Elem())
		fresh.Elem().Set(v.Elem())
		renew(fresh.Elem(), depth+1)
	case reflect.Interface:
		fresh = reflect.New(v.Elem().Type()).Elem()
		fresh.Set(v.Elem())
		renew(fresh, depth+1)
	case reflect.Map:
		fresh = reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			one := reflect.New(v.Type().Elem()).Elem()
			one.Set(it.Value())
			renew(one, depth+1)
			fresh.SetMapIndex(it.Key(), one)
		}
	case reflect.Slice, reflect.Array:
		if kind == reflect.Slice {
			fresh = reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
		}
		for i := range fresh.Len() {
			renew(fresh.Index(i), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Tag.Get("json") != "-" && (f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct) {
				renew(v.Field(i), depth+1)
			}
		}
		return
	default:
		return
	}
	if kind != reflect.Array {
		v.Set(fresh)
	}
}

// readConfig decodes a configuration. Unknown keys are errors.
func readConfig(config abi.JSON, v any) error {
	unknown, err := jsoncodec.ReadStrict(config, v)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + err.Error()}
	}
	if len(unknown) == 0 {
		return nil
	}
	return unknownKeys(unknown, schema.Keys(reflect.TypeOf(v).Elem()))
}

// unknownKeys returns the error for a configuration with unknown keys.
func unknownKeys(unknown, known []string) error {
	allowed := "this module takes no configuration"
	if len(known) > 0 {
		allowed = "allowed: " + strings.Join(known, ", ")
	}
	return &abi.Error{
		Code:    abi.CodeInvalid,
		Message: "config: unknown key " + strings.Join(unknown, ", ") + "; " + allowed,
	}
}
