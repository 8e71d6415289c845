package responses

import (
	"fmt"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An object has the members of a JSON object by name.
type object map[string]rawjson.Value

func members(v rawjson.Value) object {
	list := v.Members()
	out := make(object, len(list))
	for _, m := range list {
		out[m.Name] = m.Value
	}
	return out
}

// notString returns the first of the names whose value is neither a string nor absent, or "".
func (f object) notString(names ...string) string {
	for _, name := range names {
		if v := f[name]; !v.IsNull() && !v.IsString() {
			return name
		}
	}
	return ""
}

// A field is a member of an object that the gateway writes.
type field struct {
	name string
	text []byte
}

func str(name, text string) field      { return field{name, rawjson.Quote(text)} }
func num(name string, n int64) field   { return field{name, fmt.Append(nil, n)} }
func raw(name, text string) field      { return field{name, []byte(text)} }
func newObject(fields ...field) []byte { return appendObject(nil, fields...) }

func appendObject(dst []byte, fields ...field) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, rawjson.Quote(f.name)...), ':'), f.text...)
	}
	return append(dst, '}')
}

// edit returns the text of an object with changed members. See [rawjson.Edits.Members].
func edit(text []byte, change map[string][]byte) []byte {
	return rawjson.SetMembers(text, change)
}

// parsed returns the value of text that has been parsed before.
func parsed(text []byte) rawjson.Value {
	v, err := rawjson.Parse(text)
	if err != nil {
		panic("responses: text that was parsed before: " + err.Error())
	}
	return v
}

func invalid(param, format string, args ...any) *wire.Error {
	err := wire.Errorf(wire.CodeInvalid, format, args...)
	err.Param = param
	return err
}

func broken(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.CodeModule, format, args...)
}

func upstream(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.CodeUpstream, format, args...)
}
