package module

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

const schema = `{"type":"object","properties":{"deny":{"type":"array","items":{"$ref":"#/$defs/name"}},
	"limit":{"type":"integer"},"at":{"type":"object","properties":{"a/b":{"enum":["x"]}}}},
	"required":["limit"],"additionalProperties":false,"$defs":{"name":{"type":"string","minLength":1}}}`

func TestConfigure(t *testing.T) {
	t.Parallel()
	m, err := loadBytes(t, saying(t, `{"config_schema":`+schema+`}`, "", 0), Limits{InputBytes: 500})
	require.NoError(t, err)
	configure(t, m, `{"limit":3,"deny":["shell"],"at":{"a/b":"x"}}`)
	for config, want := range map[string]string{
		``:                           `config: required: missing properties: ["limit"]`,
		`null`:                       `config: required: missing properties: ["limit"]`,
		`{"limit":"3"}`:              `config: limit: is of type string; want "integer"`,
		`{"limit":3,"deny":[1]}`:     `config: deny[]: `,
		`{"limit":3,"deny":[""]}`:    `config: deny[]: minLength: `,
		`{"limit":3,"at":{"a/b":1}}`: `config: at.a/b: is not one of x`,
		`{"limit":3,"speed":9}`:      `config: unexpected additional properties ["speed"]`,
		`[]`:                         `config: is of type array; want "object"`,
		`{"limit":3,`:                `config: not valid JSON: `,
		`{"limit":3,"limit":4}`:      `key "limit" is duplicated`,
		`{"limit":3,"deny":["` + strings.Repeat("x", 500) + `"]}`: `more than the limit input_bytes of 500`,
	} {
		_, err := m.Configure(t.Context(), "guard", json.RawMessage(config), Grants{})
		var refused *ConfigError
		require.ErrorAs(t, err, &refused, config)
		require.ErrorContains(t, err, "configure guard (says.wasm): ")
		require.ErrorContains(t, err, want)
	}
}

func TestConfigureFails(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"code":"invalid","message":"config: deny[1]: no such tool"}`: "configure guard (says.wasm): config: deny[1]: no such tool",
		`not json`: "returned 1, and its error object: want a JSON value",
	} {
		m, err := loadBytes(t, saying(t, "{}", answer, 1), Limits{})
		require.NoError(t, err)
		_, err = m.Configure(t.Context(), "guard", nil, Grants{})
		var refused *ConfigError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
	}
	m, err := loadBytes(t, saying(t, "{}", "{}", 7), Limits{})
	require.NoError(t, err)
	_, err = m.Configure(t.Context(), "guard", nil, Grants{})
	require.ErrorContains(t, err, "returned 7; want 0 for done or 1 for failed")
}

func TestGrants(t *testing.T) {
	t.Parallel()
	g, err := ParseGrants([]string{"read:last", "tool:search", "model", "http:API.example.com", "store", "tool:search"})
	require.NoError(t, err)
	require.Equal(t, Grants{Read: chain.ReadLast, Model: true, Tools: []string{"search"}, HTTP: []string{"api.example.com"}, Store: true}, g)
	again, err := ParseGrants(g.Strings())
	require.NoError(t, err)
	require.Equal(t, g, again)
	for grant, want := range map[string]string{
		"files":               `grant "files": no such power; there are read:all`,
		"read":                "want read:all, read:last or read:none",
		"read:some":           "want read:all, read:last or read:none",
		"model:gpt":           "want model alone",
		"tool:":               "want tool:NAME",
		"tool":                "want tool:NAME",
		"http:https://x.org/": "want http:HOST",
		"http:":               "want http:HOST",
		"":                    "no such power",
	} {
		_, err := ParseGrants([]string{grant})
		require.ErrorContains(t, err, want)
	}
	_, err = ParseGrants([]string{"read:last", "read:none"})
	require.ErrorContains(t, err, "contradicts read:last")
}

// TestHostileSchema checks that a module's schema cannot make the host work
// without end.
func TestHostileSchema(t *testing.T) {
	t.Parallel()
	bomb := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range 40 {
		next := "#/$defs/d" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		bomb += `"d` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `":{"anyOf":[{"$ref":"` + next + `"},{"$ref":"` + next + `"}]},`
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
			compiled, err := compileSchema([]byte(tc.schema))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.Less(t, len(err.Error()), 600)
				return
			}
			// Whether it is taken or not: it does no harm.
			if err == nil {
				_ = checkConfig(compiled, []byte(`{"a":1}`))
			}
		})
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(schema), []byte(`{"limit":3,"deny":[""]}`))
	f.Add([]byte(`{"$ref":"#/a/b","a":{"b":{"items":{"$ref":"#/a/b"}}}}`), []byte(`[[1]]`))
	f.Add([]byte(`{"multipleOf":0,"$id":"x","uniqueItems":true}`), []byte(`[1,1]`))
	f.Fuzz(func(t *testing.T, schema, config []byte) {
		if abi.Valid(schema) != nil {
			return // config_schema comes out of a strict reader
		}
		compiled, err := compileSchema(schema)
		if err != nil {
			return
		}
		_ = checkConfig(compiled, config)
	})
}
