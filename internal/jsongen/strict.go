package main

import (
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abisource"
)

// strictOf generates the methods that decode a type as strictly as Decode.
func (g *generator) strictOf(d *abisource.Decl) {
	list := d.Flat()
	if len(list) > 64 {
		panic(d.Name + " has more than 64 fields, the size of the bit set")
	}
	quoted := make([]string, len(list))
	for i, f := range list {
		quoted[i] = strconv.Quote(f.Key)
	}
	g.hostf("\nvar fieldsOf%s = []string{%s}\n", d.Name, strings.Join(quoted, ", "))
	g.hostf("\nfunc (x *%[1]s) FieldNames() []string { return fieldsOf%[1]s }\n", d.Name)
	g.hostf("\nfunc (x *%s) ReadField(s *jsoncodec.Scanner, i int) error {\n", d.Name)
	if len(list) > 0 {
		g.hostf("switch i {\n")
		for i, f := range list {
			g.hostf("case %d: return %s\n", i, read(f.Type, "x."+f.Path))
		}
		g.hostf("}\n")
	}
	g.hostf("return nil\n}\n")
	g.hostf("\nfunc (x *%s) ReadValue(s *jsoncodec.Scanner) error { return s.Fields(x) }\n", d.Name)
}

// read returns an expression that decodes a value into place.
func read(t *abisource.Type, place string) string {
	switch t.Kind {
	case abisource.Raw:
		return "s.Raw((*[]byte)(&" + place + "))"
	case abisource.Struct:
		return "(*" + t.Name + ")(" + address(place) + ").ReadValue(s)"
	case abisource.String:
		return "jsoncodec.ReadString(s, " + address(place) + ")"
	case abisource.Bool:
		return "s.Bool(&" + place + ")"
	case abisource.Int:
		return "jsoncodec.ReadInt(s, &" + place + ")"
	case abisource.Pointer:
		return "jsoncodec.ReadPointer(s, &" + place + ", " + reader(t.Elem) + ")"
	case abisource.Slice:
		return "jsoncodec.ReadSlice(s, &" + place + ", " + reader(t.Elem) + ")"
	default:
		return "jsoncodec.ReadMap(s, &" + place + ", " + reader(t.Elem) + ")"
	}
}

// reader returns a function that decodes a value.
func reader(t *abisource.Type) string {
	switch t.Kind {
	case abisource.Raw:
		return "readRaw"
	case abisource.String:
		return "jsoncodec.ReadString[" + t.Go + "]"
	case abisource.Int:
		return "jsoncodec.ReadInt[" + t.Go + "]"
	default:
		return "func(s *jsoncodec.Scanner, v *" + t.Go + ") error { return " + read(t, "(*v)") + " }"
	}
}
