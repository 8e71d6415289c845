package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// An Optional is a query parameter whose absence differs from its zero value.
type Optional[T any] struct {
	Value T
	Set   bool // the request has the parameter
}

// Schema returns the schema of the value.
func (Optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver returns the field that receives the parsed value.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether the request has the parameter.
func (o *Optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// Pointer returns a pointer to the value, or nil if the request does not have the parameter.
func (o *Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}
