package agentmodel

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/module/schema"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A format is the form of an answer: a JSON object, or what a schema describes.
type format struct {
	schema *jsonschema.Resolved
	size   int // of the schema, in values
}

// Check returns a function that returns what is wrong with the text of an answer, or nil if any text will do.
func (r *Request) Check() func(text string) string {
	if r.format == nil {
		return nil
	}
	return r.format.check
}

// newFormat compiles a schema, which has bounded size and depth and refers only to itself.
func newFormat(v rawjson.Value) (*format, error) {
	if !v.IsObject() {
		return nil, fmt.Errorf("must be an object")
	}
	compiled, err := schema.Compile(v.Text)
	if err != nil {
		return nil, err
	}
	return &format{compiled, schema.Size(v.Text)}, nil
}

// asResponseFormat returns a schema in the form of chat completions.
func asResponseFormat(schema rawjson.Value) []byte {
	return slices.Concat([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`),
		schema.Text, []byte("}}"))
}

// maxWork limits the work of a check: the values of the schema times those of the answer.
const maxWork = 5_000_000

// maxProblem limits the description of a mismatch, in bytes.
const maxProblem = 500

// values estimates the number of values in a JSON text, as the number of its separators.
func values(v rawjson.Value) int {
	n := 1
	for _, c := range v.Text {
		if c == ',' || c == ':' || c == '[' {
			n++
		}
	}
	return n
}

// check returns what is wrong with an answer, or "".
func (f *format) check(text string) string {
	v, err := rawjson.Parse([]byte(text))
	switch {
	case err != nil:
		return "it is not JSON: " + err.Error()
	case f.schema == nil && !v.IsObject():
		return "it is not a JSON object"
	case f.schema == nil:
		return ""
	}
	if values(v)*f.size > maxWork {
		return "the schema and the answer are too large for a check"
	}
	var value any
	if err := json.Unmarshal(v.Text, &value); err != nil {
		return "it is not JSON: " + err.Error()
	}
	if err := f.schema.Validate(value); err != nil {
		return truncate.Text(err.Error(), maxProblem)
	}
	return ""
}
