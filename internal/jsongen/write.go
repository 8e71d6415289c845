package main

import (
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
)

// writerOf generates the method that encodes a type, or only its fields if the method is
// hand-written.
func (g *generator) writerOf(d *abisource.Decl) {
	whole := !g.methods[d.Name+".writeValue"]
	if whole {
		g.printf("\nfunc (x *%s) writeValue(w *jsoncodec.Writer) {\nw.B = append(w.B, '{')\n", d.Name)
	} else if !g.methods[d.Name+".writeFields"] {
		return
	} else {
		g.printf("\nfunc (x *%s) writeFields(w *jsoncodec.Writer) {\n", d.Name)
	}
	for _, f := range d.Flat() {
		condition := present(f)
		if condition != "" {
			g.printf("if %s {\n", condition)
		}
		g.printf("w.Key(%s)\n%s\n", strconv.Quote(strconv.Quote(f.Key)+":"), write(f.Type, "x."+f.Path))
		if condition != "" {
			g.printf("}\n")
		}
	}
	if whole {
		g.printf("w.B = append(w.B, '}')\n")
	}
	g.printf("}\n")
}

// present returns the condition under which a field is encoded, or "" for always.
func present(f abisource.Field) string {
	place := "x." + f.Path
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
func write(t *abisource.Type, place string) string {
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
		return "if p := " + place + "; p == nil {\nw.Null()\n} else {\n" + write(t.Elem, "(*p)") + "\n}"
	case abisource.Slice:
		return "jsoncodec.WriteSlice(w, " + place + ", " + writer(t.Elem) + ")"
	default:
		return "jsoncodec.WriteMap(w, " + place + ", " + writer(t.Elem) + ")"
	}
}

func writer(t *abisource.Type) string {
	return "func(w *jsoncodec.Writer, v *" + t.Go + ") { " + write(t, "(*v)") + " }"
}

// address returns the address of a place.
func address(place string) string {
	if pointer, ok := strings.CutPrefix(place, "(*"); ok {
		return strings.TrimSuffix(pointer, ")")
	}
	return "&" + place
}
