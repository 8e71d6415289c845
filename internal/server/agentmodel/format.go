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

// A format is the form that a request asks of the answer: JSON text that schema describes, or any
// JSON object if schema is nil.
type format struct {
	schema *jsonschema.Resolved
	size   int // number of values in the schema
}

// Check returns a function that compares the text of an answer with the requested format. The
// function returns what is wrong with the text, or "" if nothing is. Check returns nil if the
// request does not ask for a format.
func (r *Request) Check() func(text string) string {
	if r.format == nil {
		return nil
	}
	return r.format.check
}

// newFormat returns the format that a JSON schema describes. It rejects schemas that are too large,
// or refer to other documents.
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

// asResponseFormat returns the response_format with which a request for a chat completion asks for
// answers that the schema describes.
func asResponseFormat(schema rawjson.Value) []byte {
	return slices.Concat([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`),
		schema.Text, []byte("}}"))
}

// maxWork limits the work of checking one answer: the number of values in the schema times the
// number of values in the answer.
const maxWork = 5_000_000

// maxProblem limits the description of a mismatch, in bytes.
const maxProblem = 500

// values estimates the number of values in v by counting its separators.
func values(v rawjson.Value) int {
	n := 1
	for _, c := range v.Text {
		if c == ',' || c == ':' || c == '[' {
			n++
		}
	}
	return n
}

// check returns what is wrong with the text of an answer, or "" if the text has the format.
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
