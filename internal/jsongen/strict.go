package main

import (
	"fmt"
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
	if g.embedded[d.Name] {
		g.hostf("return read%sField(s, (*%s)(x), i)\n}\n", d.Name, d.Qualified())
	} else {
		g.readFields(d)
	}
	g.hostf("\nfunc (x *%s) ReadValue(s *jsoncodec.Scanner) error { return s.Fields(x) }\n", d.Name)
}

// readFields generates the statements that decode field i of x, and the end of the function.
func (g *generator) readFields(d *abisource.Decl) {
	if len(d.Fields()) > 0 {
		g.hostf("switch i {\n")
	}
	n := 0
	for _, f := range d.Fields() {
		if !f.Embedded {
			g.hostf("case %d: return %s\n", n, g.read(f.Type, "x."+f.Name))
			n++
			continue
		}
		cases := make([]string, len(g.source.Decl(f.Name).Flat()))
		for i := range cases {
			cases[i] = strconv.Itoa(n + i)
		}
		index := "i"
		if n > 0 {
			index = fmt.Sprintf("i-%d", n)
		}
		g.hostf("case %[1]s: return read%[2]sField(s, &x.%[2]s, %[3]s)\n", strings.Join(cases, ", "), f.Name, index)
		n += len(cases)
	}
	if n > 0 {
		g.hostf("}\n")
	}
	g.hostf("return nil\n}\n")
}

// read returns an expression that decodes a value into place.
func (g *generator) read(t *abisource.Type, place string) string {
	switch t.Kind {
	case abisource.Raw:
		return "s.Raw((*[]byte)(" + address(place) + "))"
	case abisource.Struct:
		return "(*" + t.Name + ")(" + address(place) + ").ReadValue(s)"
	case abisource.String:
		return "jsoncodec.ReadString(s, " + address(place) + ")"
	case abisource.Bool:
		return "s.Bool(" + address(place) + ")"
	case abisource.Int:
		return "jsoncodec.ReadInt(s, " + address(place) + ")"
	case abisource.Pointer:
		return "jsoncodec.ReadPointer(s, " + address(place) + ", " + g.reader(t.Elem) + ")"
	case abisource.Slice:
		return "jsoncodec.ReadSlice(s, " + address(place) + ", " + g.reader(t.Elem) + ")"
	default:
		return "jsoncodec.ReadMap(s, " + address(place) + ", " + g.reader(t.Elem) + ")"
	}
}

// reader returns a function that decodes a value, and generates the function if necessary.
func (g *generator) reader(t *abisource.Type) string {
	switch t.Kind {
	case abisource.String:
		return "jsoncodec.ReadString[" + t.Go + "]"
	case abisource.Int:
		return "jsoncodec.ReadInt[" + t.Go + "]"
	}
	name := "read" + t.Name
	if !g.functions[name] {
		g.functions[name] = true
		fmt.Fprintf(&g.hostEnds, "\nfunc %s(s *jsoncodec.Scanner, v *%s) error { return %s }\n",
			name, t.Go, g.read(t, "*v"))
	}
	return name
}
