package wire

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// SamePart reports whether a module returned a part as it was. Its JSON may be written differently.
func SamePart(a, b *abi.Part) bool {
	return a.Type == b.Type && a.Text == b.Text && rawjson.Equal(a.ImageURL, b.ImageURL) &&
		rawjson.Equal(a.InputAudio, b.InputAudio) && rawjson.Equal(a.File, b.File) &&
		len(a.Unknown) == len(b.Unknown) && len(ChangedFields(a.Unknown, b.Unknown)) == 0
}

// ChangedFields returns the fields of next that old does not have, or that have another value there.
func ChangedFields(old, next abi.Fields) abi.Fields {
	var values map[string]abi.JSON
	var out abi.Fields
	for i, f := range next {
		if i < len(old) && old[i].Name == f.Name && rawjson.Equal(old[i].Value, f.Value) {
			continue
		}
		if values == nil {
			values = make(map[string]abi.JSON, len(old))
			for _, f := range old {
				values[f.Name] = f.Value
			}
		}
		if v, ok := values[f.Name]; !ok || !rawjson.Equal(v, f.Value) {
			out = append(out, f)
		}
	}
	return out
}

// Misspelled returns the one of the known names, which are in lower case, from which a field's name differs in case
// only, or "". Some endpoints and clients ignore case, so that such a field would hide its value from modules.
func Misspelled(name string, known []string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' || r > '~' }) {
		return ""
	}
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return k
		}
	}
	return ""
}
