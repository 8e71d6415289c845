// Package values reads JSON as Go values, with numbers as they are spelled. It does
// without encoding/json, which makes a module a megabyte larger.
package values

import "github.com/agent-runner/agent-runner/guest-sdk/go/json"

// A Number is a number as it stands in the text: no digit of it is lost.
type Number string

// String returns the number as it is spelled.
func (n Number) String() string { return string(n) }

// MarshalJSON writes the number as it is spelled.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// Read reads a text strictly, as the host does: no key twice, nothing behind the value. What
// comes out is map[string]any, []any, string, [Number], bool or nil, without escapes that
// could hide something.
func Read(text []byte) (any, error) {
	if err := json.Valid(text); err != nil {
		return nil, err
	}
	r := json.NewReader(text)
	value := read(r)
	return value, r.Err()
}

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
