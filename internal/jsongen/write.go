package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
)

// writerOf generates the method that encodes a type, or only its fields if the method is
// hand-written.
func (g *generator) writerOf(d *abisource.Decl) {
	method := "writeValue"
	if g.methods[d.Name+".writeValue"] {
		if !g.methods[d.Name+".writeFields"] {
			return
		}
		method = "writeFields"
	}
	g.printf("\nfunc (x *%s) %s(w *jsoncodec.Writer) {\n", d.Name, method)
	if method == "writeValue" {
		g.printf("w.B = append(w.B, '{')\n")
	}
	if g.embedded[d.Name] {
		g.printf("write%sFields(w, (*%s)(x))\n", d.Name, d.Qualified())
	} else {
		g.writeFields(d)
	}
	if method == "writeValue" {
		g.printf("w.B = append(w.B, '}')\n")
	}
	g.printf("}\n")
}

// writeFields generates the statements that encode the fields of x.
func (g *generator) writeFields(d *abisource.Decl) {
	for _, f := range d.Fields() {
		if f.Embedded {
			g.printf("write%[1]sFields(w, &x.%[1]s)\n", f.Name)
			continue
		}
		key := fmt.Sprintf("w.Key(%s)\n", strconv.Quote(strconv.Quote(f.Key)+":"))
		place := "x." + f.Name
		condition := present(f)
		switch {
		case condition == "":
			g.printf("%s%s\n", key, g.write(f.Type, place))
		case f.Type.Kind == abisource.Pointer:
			g.printf("if p := %s; p != nil {\n%s%s\n}\n", place, key, g.write(f.Type.Elem, "*p"))
		default:
			g.printf("if %s {\n%s%s\n}\n", condition, key, g.write(f.Type, place))
		}
	}
}

// present returns the condition, a Go expression, under which a field is encoded. It returns "" for
// a field that always is.
func present(f abisource.Field) string {
	place := "x." + f.Name
	switch {
	case f.Omit == "":
		return ""
	case f.Type.Kind == abisource.Struct:
		return "!" + place + ".IsZero()"
	case f.Type.Kind == abisource.String:
		return place + ` != ""`
	case f.Type.Kind == abisource.Bool:
		return place
	case f.Type.Kind == abisource.Int:
		return place + " != 0"
	case f.Type.Kind == abisource.Pointer, f.Omit == "omitzero":
		return place + " != nil"
	default:
		return "len(" + place + ") > 0"
	}
}

// write returns a statement that encodes the value in place.
func (g *generator) write(t *abisource.Type, place string) string {
	switch t.Kind {
	case abisource.Raw:
		return "w.Raw(" + place + ")"
	case abisource.Struct:
		return "(*" + t.Name + ")(" + address(place) + ").writeValue(w)"
	case abisource.String:
		return "w.Text(string(" + place + "))"
	case abisource.Bool:
		return "w.Bool(" + place + ")"
	case abisource.Int:
		return "w.Int(int64(" + place + "))"
	case abisource.Pointer:
		return "if p := " + place + "; p == nil {\nw.Null()\n} else {\n" + g.write(t.Elem, "*p") + "\n}"
	case abisource.Slice:
		return "jsoncodec.WriteSlice(w, " + place + ", " + g.writer(t.Elem) + ")"
	default:
		return "jsoncodec.WriteMap(w, " + place + ", " + g.writer(t.Elem) + ")"
	}
}

// writer returns the name of a function that encodes a value, and generates the function if
// necessary.
func (g *generator) writer(t *abisource.Type) string {
	name := "write" + strings.ToUpper(t.Name[:1]) + t.Name[1:]
	if !g.functions[name] {
		g.functions[name] = true
		fmt.Fprintf(&g.ends, "\nfunc %s(w *jsoncodec.Writer, v *%s) { %s }\n", name, t.Go, g.write(t, "*v"))
	}
	return name
}

// address returns an expression for the address of a place: p for *p, and &place for others.
func address(place string) string {
	if pointer, ok := strings.CutPrefix(place, "*"); ok {
		return pointer
	}
	return "&" + place
}
