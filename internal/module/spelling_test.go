package module

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

func TestMisspelledHooks(t *testing.T) {
	hook := verify.FuncType{Params: []api.ValueType{api.ValueTypeI32}, Results: []api.ValueType{api.ValueTypeI32}}
	for name, want := range map[string]abi.Hook{
		"beforeModel":     contract.HookBeforeModel,
		"before-tool":     contract.HookBeforeTool,
		"OnChunk":         contract.HookOnChunk,
		"after_modell":    contract.HookAfterModel,
		"wrap_tool_calls": contract.HookWrapToolCall,
		"malloc":          "",
		"qjs_eval":        "",
		"after_model":     "", // correct
	} {
		got, ok := likelyHook(verify.ExportInfo{Name: name, Kind: "function", Type: hook}, hook)
		require.Equal(t, want, got, name)
		require.Equal(t, want != "", ok, name)
	}
	_, ok := likelyHook(verify.ExportInfo{Name: "beforeModel", Kind: "function"}, hook)
	require.False(t, ok, "a hook has another type")
}

func TestNoHookToCall(t *testing.T) {
	m, err := loadBytes(t, answering(t, `{"hooks":[]}`, "", 0), policy.Limits{})
	require.NoError(t, err)
	require.Equal(
		t,
		[]string{"describe: none of the hooks that the module exports is in its list of hooks, so the host never calls it"},
		m.Info().Warnings,
	)
}

func TestInvalidSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"objekt"}`:                          `type is "objekt"; want one of array, boolean, integer, null, number, object, string, or a list of them`,
		`{"properties":{"a":{"type":{"b":1}}}}`:      `properties/a/type is an object; want one of array`,
		`{"properties":{"a":{"minimum":"1"}}}`:       `properties/a/minimum is "1"; want a number`,
		`{"properties":{"a":5}}`:                     `properties/a is 5; want a schema`,
		`{"required":"a"}`:                           `required is "a"; want a list of strings`,
		`{"anyOf":[{"maxLength":-1}]}`:               `anyOf/0/maxLength is -1; want a whole number`,
		`{"required":["a"],"properties":{"a":true}}`: "",
	} {
		_, err := loadBytes(t, answering(t, `{"config_schema":`+schema+`}`, "", 0), policy.Limits{})
		if want == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.ErrorContains(t, err, want, schema)
		require.NotContains(t, err.Error(), "map[", schema)
		require.NotContains(t, err.Error(), "Go ", schema)
	}
}
