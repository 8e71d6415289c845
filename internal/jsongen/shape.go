package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
)

// fillerOf generates the method that decodes the host's JSON, and the shape that it uses.
func (g *generator) fillerOf(d *abisource.Decl) {
	name, list := d.Name, d.Flat()
	g.printf("\nfunc (x *%s) fill(t *reader) { t.object(&shapeOf%s, unsafe.Pointer(x)) }\n", name, name)
	g.printf("\nvar shapeOf%s = objectShape{", name)
	if g.methods[name+".Keep"] {
		g.printf("keep: func(p unsafe.Pointer, name string, raw []byte) { (*%s)(p).Keep(name, raw) },", name)
	}
	if len(list) > 0 && list[0].Path == "Common.Run" {
		g.printf("common: true, ")
	}
	g.printf("fields: []shapeField{\n")
	for _, f := range list {
		value := g.shape(f.Type)
		value = strings.Replace(value, "of: &shapeOf"+name+",", "", 1) // an initializer cannot refer to its own variable
		g.printf("{%s, at: unsafe.Offsetof(%s{}.%s), %s},\n", keyOf(f.Key), name, f.Name, value)
	}
	g.printf("{mask: %#x},\n", uint64(math.MaxUint64))
	g.printf("}}\n")
}

// maxKey is the maximum length in bytes of a key that three words cover, including the
// comma and the quotes and colon around it.
const maxKey = 24

// keyOf returns the fields of a shapeField that identify a key, including the comma, quotes
// and colon around it: its first eight bytes, and for longer keys the last eight and those
// in between.
func keyOf(name string) string {
	key := `,"` + name + `":`
	if len(key) > maxKey {
		panic("the key " + name + " is longer than three words")
	}
	var first, mask, middle, last [8]byte
	copy(first[:], key)
	copy(mask[:], strings.Repeat("\xff", min(8, len(key))))
	if len(key) > 8 {
		copy(last[:], key[len(key)-8:])
	}
	if len(key) > 16 {
		copy(middle[:], key[8:])
	}
	word := binary.LittleEndian.Uint64
	text := fmt.Sprintf("name: %q, skip: %d, first: %#x, mask: %#x", name, len(key), word(first[:]), word(mask[:]))
	if len(key) > 16 {
		text += fmt.Sprintf(", middle: %#x", word(middle[:]))
	}
	if len(key) > 8 {
		text += fmt.Sprintf(", last: %#x", word(last[:]))
	}
	return text
}

// shape returns the fields of a shapeField that describe how to decode a type.
func (g *generator) shape(t *abisource.Type) string {
	switch {
	case t.Kind == abisource.String:
		return "kind: shapeText"
	case t.Kind == abisource.Bool:
		return "kind: shapeBool"
	case t.Kind == abisource.Int && t.Name == "int":
		return "kind: shapeInt"
	case t.Kind == abisource.Int && t.Name == "int64":
		return "kind: shapeInt64"
	case t.Kind == abisource.Raw:
		return "kind: shapeRaw"
	case t.Kind == abisource.Struct && t.Name == "Content":
		return "kind: shapeContent"
	case t.Kind == abisource.Struct:
		return "kind: shapeStruct, of: &shapeOf" + t.Name
	case t.Kind == abisource.Pointer && t.Elem.Kind == abisource.Struct:
		grow := g.grower("grow"+t.Elem.Name, "_", "grown((**"+t.Elem.Go+")(p))")
		return fmt.Sprintf("kind: shapePointer, of: &shapeOf%s, grow: %s", t.Elem.Name, grow)
	case t.Kind == abisource.Slice && t.Elem.Kind == abisource.Struct:
		extend := g.grower("extend"+t.Elem.Name, "n", "extended((*[]"+t.Elem.Go+")(p), n)")
		return fmt.Sprintf("kind: shapeList, of: &shapeOf%s, size: unsafe.Sizeof(%s{}), grow: %s",
			t.Elem.Name, t.Elem.Go, extend)
	case t.Kind == abisource.Slice:
		return fmt.Sprintf(
			"kind: shapeOther, other: func(t *reader, p unsafe.Pointer) { fillSlice(t, (*[]%s)(p), %s) }",
			t.Elem.Go,
			filler(t.Elem),
		)
	case t.Kind == abisource.Map:
		return fmt.Sprintf(
			"kind: shapeOther, other: func(t *reader, p unsafe.Pointer) { fillMap(t, (*%s)(p), %s) }",
			t.Go,
			filler(t.Elem),
		)
	default:
		panic("modules cannot decode this type yet: " + t.Go)
	}
}

// grower returns name, the name of a function that allocates a value or appends a list element. On
// the first call for a name, it generates the function. n names the function's int parameter, which
// is "_" or the number of list elements still to come. result is the expression that the function
// returns.
func (g *generator) grower(name, n, result string) string {
	if !g.functions[name] {
		g.functions[name] = true
		fmt.Fprintf(&g.ends, "\nfunc %s(p unsafe.Pointer, %s int) unsafe.Pointer { return %s }\n", name, n, result)
	}
	return name
}

// fill returns a statement that decodes a trusted value into place.
func fill(t *abisource.Type, place string) string {
	switch t.Kind {
	case abisource.Raw:
		return place + " = t.Raw()"
	case abisource.String:
		return place + " = " + converted(t, "string", "t.Text()")
	case abisource.Int:
		return place + " = " + converted(t, "int64", "t.Int()")
	default:
		panic("modules cannot decode this element type yet: " + t.Go)
	}
}

func converted(t *abisource.Type, from, expression string) string {
	if t.Go == from {
		return expression
	}
	return t.Go + "(" + expression + ")"
}

// filler returns a function literal that decodes a trusted value.
func filler(t *abisource.Type) string {
	return "func(t *reader, v *" + t.Go + ") { " + fill(t, "*v") + " }"
}
