// Package values reads JSON as Go values and preserves the spelling of numbers. It avoids
// encoding/json, which would make a module 0.9 MB larger.
package values

import "github.com/agent-runner/agent-runner/guest-sdk/go/json"

// A Number is the text of a JSON number, with all its digits.
type Number string

// String returns the number as it is spelled.
func (n Number) String() string { return string(n) }

// MarshalJSON writes the number as it is spelled.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// Read parses text as strictly as the host does: it rejects duplicate keys and data after
// the value. The result is a map[string]any, []any, string, [Number], bool or nil, with all
// escapes decoded.
func Read(text []byte) (any, error) {
	if err := json.Valid(text); err != nil {
		return nil, err
	}
	r := json.NewReader(text)
	value := read(r)
	return value, r.Err()
}

// read reads the next value of r, which must be valid JSON.
func read(r *json.Reader) any {
	switch r.Kind() {
	case '{':
		object := map[string]any{}
		for r.Key() {
			name := r.Name()
			object[name] = read(r)
		}
		return object
	case '[':
		list := []any{}
		for r.Next() {
			list = append(list, read(r))
		}
		return list
	case '"':
		return r.Text()
	case '0':
		return Number(r.Raw())
	case 't':
		return r.Bool()
	default:
		r.Skip()
		return nil
	}
}
