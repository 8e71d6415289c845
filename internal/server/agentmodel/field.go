package agentmodel

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// A check returns what is wrong with the value of a field, or "" if agents accept the value. It is
// not called for null, which agents always accept.
type check func(v rawjson.Value) string

// ignored is the check of fields that have no effect on agents. It accepts every value.
func ignored(rawjson.Value) string { return "" }

// only returns a check that accepts the given values, which are JSON text. These values ask for the
// behavior that agents have without the field. If values is empty, the check rejects the field.
func only(values ...string) check {
	return func(v rawjson.Value) string {
		if slices.Contains(values, compact(v.Text)) {
			return ""
		}
		if len(values) == 0 {
			return "agents do not have it; remove it"
		}
		return "agents accept only " + strings.Join(values, " or ")
	}
}

// members returns a check that accepts objects. A member whose name is not in names must be null.
func members(names ...string) check {
	return func(v rawjson.Value) string {
		if !v.IsObject() {
			return "it must be an object"
		}
		for _, m := range v.Members() {
			if !m.Value.IsNull() && !slices.Contains(names, m.Name) {
				return fmt.Sprintf("agents do not have its member %.60q; remove it", m.Name)
			}
		}
		return ""
	}
}

// compact returns JSON text without white space.
func compact(text []byte) string {
	v := jsontext.Value(bytes.Clone(text))
	if v.Compact() != nil {
		return string(text)
	}
	return string(v)
}

// merged returns the entries of both maps. If both have a key, the entry of b is used.
func merged(a, b map[string]check) map[string]check {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
