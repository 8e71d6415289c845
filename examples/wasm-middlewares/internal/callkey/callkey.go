// Package callkey computes a key that identifies a tool call.
package callkey

import (
	"encoding/json"
	"strings"

	guestjson "github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// Of returns a key for the call. Calls that differ only in key order, spaces or escapes of their
// arguments have the same key; empty arguments count as an empty object. Of returns an error if the
// arguments are not a JSON object.
func Of(name, arguments string) (string, error) {
	object := map[string]any{}
	if arguments != "" {
		if err := guestjson.Valid([]byte(arguments)); err != nil {
			return "", err
		}
		d := json.NewDecoder(strings.NewReader(arguments))
		d.UseNumber()
		if err := d.Decode(&object); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal([]any{name, object})
	return string(b), err
}
