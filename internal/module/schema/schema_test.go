package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// TestHostileSchema checks that Compile rejects hostile schemas, such as those with recursive or
// multiplying references, and that the errors are short.
func TestHostileSchema(t *testing.T) {
	t.Parallel()
	bomb := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range 40 {
		next := "#/$defs/d" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		bomb += `"d` + string(rune('0'+i/10)) + string(
			rune('0'+i%10),
		) + `":{"anyOf":[{"$ref":"` + next + `"},{"$ref":"` + next + `"}]},`
	}
	bomb = strings.Replace(bomb, `#/$defs/d0"`, `#/$defs/d00"`, 1) + `"d40":{"type":"string"}}}`
	for name, tc := range map[string]struct{ schema, want string }{
		"itself":       {`{"$ref":"#"}`, "leads back to itself"},
		"in a circle":  {`{"$ref":"#/$defs/a","$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"$ref":"#/$defs/a"}}}`, "leads back to itself"},
		"escaped":      {`{"$ref":"#/%24defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`, "leads back to itself"},
		"bomb":         {bomb, "multiply to more than 50000 values"},
		"elsewhere":    {`{"$ref":"other.json"}`, "only references within the schema"},
		"anchor":       {`{"$ref":"#name"}`, "only references within the schema"},
		"nowhere":      {`{"$ref":"#/$defs/x"}`, `there is no "$defs"`},
		"dynamic":      {`{"$dynamicRef":"#x"}`, "$dynamicRef is not allowed"},
		"another base": {`{"properties":{"a":{"$id":"https://x.org/","$ref":"#/b"}}}`, "$id is not allowed"},
		"pattern":      {`{"pattern":"("}`, "error parsing regexp"},
		"draft":        {`{"$schema":"http://json-schema.org/draft-04/schema#"}`, "want draft 2020-12 or draft-07"},
		"type":         {`{"type":"thing"}`, ""},
		"null":         {`{"properties":{"a":null}}`, ""},
		"large":        {`{"title":"` + strings.Repeat("x", maxSchema) + `"}`, "at most 65536 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, err := Compile([]byte(tc.schema))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.Less(t, len(err.Error()), 600)
				return
			}
			// The schema must do no harm whether or not it is accepted.
			if err == nil {
				_ = Check(compiled, []byte(`{"a":1}`))
			}
		})
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(
		[]byte(
			`{"type":"object","properties":{"deny":{"type":"array","items":{"$ref":"#/$defs/name"}},"limit":{"type":"integer","minimum":1}},"$defs":{"name":{"type":"string","minLength":1}}}`,
		),
		[]byte(`{"limit":3,"deny":[""]}`),
	)
	f.Add([]byte(`{"$ref":"#/a/b","a":{"b":{"items":{"$ref":"#/a/b"}}}}`), []byte(`[[1]]`))
	f.Add([]byte(`{"multipleOf":0,"$id":"x","uniqueItems":true}`), []byte(`[1,1]`))
	f.Fuzz(func(t *testing.T, schema, config []byte) {
		if jsoncodec.Valid(schema) != nil {
			return // the decoder of describe's answer rejects it before Compile is called
		}
		compiled, err := Compile(schema)
		if err != nil {
			return
		}
		_ = Check(compiled, config)
	})
}
