package abisource

import (
	"fmt"
	"go/ast"
)

// A Kind is the form of a type.
type Kind int

// The kinds of types.
const (
	String  Kind = iota
	Bool         // true or false
	Int          // int, int32 or int64
	Raw          // JSON text
	Pointer      // to Elem
	Slice        // of Elem
	Map          // from strings to Elem
	Struct       // a JSON object, unless the type has a codec of its own
)

// A Type is the type of a field.
type Type struct {
	Kind Kind
	Name string // the name of a declared or basic type, such as Message or int64; empty for others
	Go   string // the type as Go code, qualified with its package
	Elem *Type
}

// typeOf converts a type expression. It panics for types that the ABI does not use.
func (s *Source) typeOf(e ast.Expr) *Type {
	switch e := e.(type) {
	case *ast.StarExpr:
		elem := s.typeOf(e.X)
		return &Type{Kind: Pointer, Go: "*" + elem.Go, Elem: elem}
	case *ast.ArrayType:
		elem := s.typeOf(e.Elt)
		return &Type{Kind: Slice, Go: "[]" + elem.Go, Elem: elem}
	case *ast.MapType:
		elem := s.typeOf(e.Value)
		return &Type{Kind: Map, Go: "map[" + s.typeOf(e.Key).Go + "]" + elem.Go, Elem: elem}
	case *ast.SelectorExpr: // a type of package abi in package contract
		return s.typeOf(e.Sel)
	case *ast.Ident:
		return s.named(e.Name)
	default:
		panic(fmt.Sprintf("unsupported type expression %T", e))
	}
}

func (s *Source) named(name string) *Type {
	switch name {
	case "JSON":
		return &Type{Kind: Raw, Name: name, Go: "abi.JSON"}
	case "string":
		return &Type{Kind: String, Name: name, Go: name}
	case "bool":
		return &Type{Kind: Bool, Name: name, Go: name}
	case "int", "int32", "int64":
		return &Type{Kind: Int, Name: name, Go: name}
	}
	d := s.Decl(name)
	if d == nil {
		panic("unknown type " + name)
	}
	if _, ok := d.expr.(*ast.StructType); ok {
		return &Type{Kind: Struct, Name: name, Go: d.Qualified()}
	}
	t := *s.typeOf(d.expr)
	t.Name, t.Go = name, d.Qualified()
	return &t
}
