package module

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

const denySchema = `{"type":"object","properties":{"deny":{"type":"array","items":{"$ref":"#/$defs/name"}},
	"limit":{"type":"integer"},"at":{"type":"object","properties":{"a/b":{"enum":["x"]}}}},
	"required":["limit"],"additionalProperties":false,"$defs":{"name":{"type":"string","minLength":1}}}`

func TestConfigure(t *testing.T) {
	t.Parallel()
	m, err := loadBytes(t, answering(t, `{"config_schema":`+denySchema+`}`, "", 0), policy.Limits{InputBytes: 500})
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
		_, err := Configure(t.Context(), m, "guard", json.RawMessage(config), policy.Grants{})
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
		m, err := loadBytes(t, answering(t, "{}", answer, 1), policy.Limits{})
		require.NoError(t, err)
		_, err = Configure(t.Context(), m, "guard", nil, policy.Grants{})
		var refused *ConfigError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
	}
	m, err := loadBytes(t, answering(t, "{}", "{}", 7), policy.Limits{})
	require.NoError(t, err)
	_, err = Configure(t.Context(), m, "guard", nil, policy.Grants{})
	require.ErrorContains(t, err, "returned 7; want 0 for done or 1 for failed")
}
