package agentfile

import (
	"encoding/json"
	"reflect"
	"strings"
)

// JSON converts an agent file, in YAML or JSON, to JSON. It resolves aliases, but does not check
// that the keys are those of an agent. name is the file's name in errors. JSON returns null for an
// empty file.
func JSON(name string, b []byte) (json.RawMessage, error) {
	f := &File{path: name, lines: strings.Split(string(b), "\n"), marks: map[string]mark{}}
	out := json.RawMessage("null")
	if err := f.decodeInto(b, reflect.ValueOf(&out).Elem()); err != nil {
		return nil, err
	}
	return out, nil
}
