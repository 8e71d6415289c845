// Package callkey tells whether two calls of tools are the same.
package callkey

import (
	"encoding/json"
	"strings"

	guestjson "github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// Of returns a key that is the same for all ways to write one call: order of
// keys, spaces and escapes in the arguments do not count, and no arguments are an
// empty object. Arguments that are no JSON object are an error.
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
