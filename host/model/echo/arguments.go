package echo

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// cutObject returns the JSON object at the start of a text, which spaces, colons or opening
// parentheses may precede. n is the number of bytes up to the end of the object. It is 0 if the text
// does not start with an object.
func cutObject(text string) (object string, n int) {
	start := strings.TrimLeft(text, " \t\n:(")
	if !strings.HasPrefix(start, "{") {
		return "", 0
	}
	d := json.NewDecoder(strings.NewReader(start))
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return "", 0
	}
	return string(raw), len(text) - len(start) + int(d.InputOffset())
}

// A schema is the part of a JSON Schema from which the model derives arguments.
type schema struct {
	Type       any                        `json:"type"` // a name, or a list of names
	Const      json.RawMessage            `json:"const"`
	Default    json.RawMessage            `json:"default"`
	Enum       []json.RawMessage          `json:"enum"`
	Examples   []json.RawMessage          `json:"examples"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	MinItems   float64                    `json:"minItems"` // JSON Schema allows 2.0
	Minimum    *float64                   `json:"minimum"`
	Maximum    *float64                   `json:"maximum"`
}

// Limits of the arguments that one answer derives from schemas, which are untrusted.
const (
	maxDepth  = 8
	maxValues = 256
	maxText   = 1 << 10   // bytes of a string from the prompt
	maxBytes  = 256 << 10 // bytes of the schemas, counting each as often as it is used
)

// A filler derives the arguments of one answer's calls.
type filler struct {
	prompt string
	number float64 // the first number in the prompt, or 1
	values int     // remaining number of values
	bytes  int     // remaining bytes of schemas
}

var numbers = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

func newFiller(prompt string) *filler {
	prompt = strings.ToValidUTF8(truncate.Text(prompt, maxText), "")
	f := &filler{prompt: prompt, number: 1, values: maxValues, bytes: maxBytes}
	if text := numbers.FindString(f.prompt); text != "" {
		_ = json.Unmarshal([]byte(text), &f.number) // stays 1 if it is not a JSON number
	}
	return f
}

// arguments returns an object with the properties that a tool's schema requires. Strings are the
// prompt, and numbers the first number in it.
func (f *filler) arguments(parameters json.RawMessage) string {
	b, err := json.Marshal(f.value(parameters, 0))
	if err != nil || !strings.HasPrefix(string(b), "{") {
		return "{}"
	}
	return string(b)
}

// value returns a value for a schema. Beyond the limits, it returns null.
func (f *filler) value(raw json.RawMessage, depth int) any {
	if f.values == 0 || len(raw) > f.bytes || depth > maxDepth {
		f.values = 0
		return nil
	}
	f.values--
	f.bytes -= len(raw)
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return f.prompt // no schema, or one that allows any value
	}
	for _, given := range slices.Concat([]json.RawMessage{s.Const, s.Default}, s.Examples, s.Enum) {
		if given != nil {
			return given
		}
	}
	switch s.typeName() {
	case "string":
		return f.prompt
	case "number":
		return s.clamp(f.number)
	case "integer":
		return s.clampInteger(f.number)
	case "boolean":
		return true
	case "null":
		return nil
	case "array":
		return f.list(&s, depth)
	}
	return f.object(&s, depth)
}

// list returns the smallest array that s allows.
func (f *filler) list(s *schema, depth int) []any {
	list := []any{}
	for float64(len(list)) < s.MinItems && f.values > 0 {
		list = append(list, f.value(s.Items, depth+1))
	}
	return list
}

// object returns an object with the properties that s requires.
func (f *filler) object(s *schema, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range s.Required {
		object[name] = f.value(s.Properties[name], depth+1)
	}
	return object
}

// typeName returns the first type of the schema. Without a type, it returns "object" if the schema
// describes properties and "string" otherwise.
func (s *schema) typeName() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				return name
			}
		}
	}
	if len(s.Properties) > 0 || len(s.Required) > 0 {
		return "object"
	}
	return "string"
}

// clamp returns n, or the nearest number within the bounds of the schema.
func (s *schema) clamp(n float64) float64 {
	if s.Minimum != nil {
		n = max(n, *s.Minimum)
	}
	if s.Maximum != nil {
		n = min(n, *s.Maximum)
	}
	return n
}

// clampInteger returns n without its fraction, or the nearest integer within the bounds of the schema.
func (s *schema) clampInteger(n float64) float64 {
	n = math.Trunc(n)
	if s.Minimum != nil {
		n = max(n, math.Ceil(*s.Minimum))
	}
	if s.Maximum != nil {
		n = min(n, math.Floor(*s.Maximum))
	}
	return n
}
