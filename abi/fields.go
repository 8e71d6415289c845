package abi

import "github.com/agent-runner/agent-runner/internal/jsoncodec"

// Fields holds the unknown fields of an object, unchanged and in their original order.
type Fields []Field

// A Field is the name and value of one field.
type Field struct {
	Name  string
	Value JSON
}

// object encodes v, a struct or a value that encodes to a JSON object, followed by the fields in
// unknown.
func object(v any, unknown Fields) ([]byte, error) {
	b, err := jsoncodec.AppendValue(nil, v)
	if err != nil || len(unknown) == 0 {
		return b, err
	}
	w := jsoncodec.Writer{B: b[:len(b)-1]}
	for i := range unknown {
		w.Field(unknown[i].Name, unknown[i].Value)
	}
	return append(w.B, '}'), w.Err
}

// unmarshalObject decodes b, which must be strict JSON, into the struct that v points to. It appends fields that the
// struct lacks to unknown.
func unmarshalObject(b []byte, v any, unknown *Fields) error {
	if err := jsoncodec.Valid(b); err != nil {
		return err
	}
	return jsoncodec.ReadObject(b, v, func(name string, raw []byte) {
		*unknown = append(*unknown, Field{string([]byte(name)), jsoncodec.Clone(raw)})
	})
}

// unmarshal decodes b, which must be strict JSON, into the value that v points to, whose type has no UnmarshalJSON
// method.
func unmarshal(b []byte, v any) error {
	if err := jsoncodec.Valid(b); err != nil {
		return err
	}
	return jsoncodec.ReadValue(b, v)
}
