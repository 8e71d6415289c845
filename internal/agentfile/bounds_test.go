package agentfile

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryNumberHasABound checks that every number in Limits and ModuleLimits has a bound, except
// journal_bytes, which the host bounds.
func TestEveryNumberHasABound(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		fields reflect.Type
		bounds map[string]int64
		except []string
	}{
		{reflect.TypeFor[Limits](), runBounds, []string{"journal_bytes"}},
		{reflect.TypeFor[ModuleLimits](), moduleBounds, nil},
	} {
		for name, index := range fieldsOf(of.fields) {
			switch of.fields.FieldByIndex(index).Type.Kind() {
			case reflect.Int, reflect.Int64:
				if !slices.Contains(of.except, name) {
					require.Positive(t, of.bounds[name], "%s.%s", of.fields, name)
				}
			default:
				require.Zero(t, of.bounds[name], "%s.%s is no number", of.fields, name)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {max_steps: 100000}":                                          "",
		"limits: {max_steps: 100001}":                                          "a.yaml:1:10: max_steps: 100001 exceeds the maximum of 100000; lower it",
		"limits: {max_steps: 100000000}":                                       "max_steps: 100000000 exceeds the maximum of 100000",
		"limits: {timeout: 720h}":                                              "",
		"limits: {timeout: 721h}":                                              "timeout: 721h0m0s exceeds the maximum of 720h0m0s",
		"limits: {tool_timeout: 25h}":                                          "tool_timeout: 25h0m0s exceeds the maximum of 24h0m0s",
		"limits: {pause: 8785h}":                                               "pause: 8785h0m0s exceeds the maximum of 8784h0m0s",
		"limits: {parallel: 257}":                                              "parallel: 257 exceeds the maximum of 256",
		"limits: {model_calls: 1000001}":                                       "model_calls: 1000001 exceeds the maximum of 1000000",
		"limits: {tool_calls: 1000001}":                                        "tool_calls: 1000001 exceeds the maximum of 1000000",
		"limits: {tools: {time: 1000001}}":                                     "time: 1000001 exceeds the maximum of 1000000",
		"model: {retries: 101}":                                                "retries: 101 exceeds the maximum of 100",
		"tools: {mcp: [{url: 'http://x', timeout: 11m}]}":                      "timeout: 11m0s exceeds the maximum of 10m0s",
		"middlewares: [{module: x.wasm, limits: {timeout: 2h}}]":               "timeout: 2h0m0s exceeds the maximum of 1h0m0s",
		"middlewares: [{module: x.wasm, limits: {nesting: 1025}}]":             "nesting: 1025 exceeds the maximum of 1024",
		"rings: {inner: [{module: x.wasm, limits: {fuel: 9000000000000000}}]}": "fuel: 9000000000000000 exceeds the maximum of 1000000000000000",
		"agents: [{name: a, agent: {limits: {max_steps: 100001}}}]":            "a.yaml:1:37: max_steps: 100001 exceeds the maximum of 100000",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f, err := Parse("a.yaml", []byte(text))
			require.NoError(t, err, "files from before there were bounds can be read")
			err = CheckBounds(f)
			if want == "" {
				require.NoError(t, err)
				require.Empty(t, BoundFields(f))
				return
			}
			require.ErrorContains(t, err, want)
			require.Len(t, BoundFields(f), 1)
			require.NoError(t, CheckBounds(f), "all numbers are within their bounds then")
		})
	}
}

func TestBoundLowers(t *testing.T) {
	t.Parallel()
	f, err := Parse(
		"a.yaml",
		[]byte(
			"limits: {max_steps: 100000000, timeout: 9000h, parallel: 4}\nagents: [{name: a, agent: {limits: {max_steps: 200000}}}]",
		),
	)
	require.NoError(t, err)
	require.Equal(t, []string{
		"limits.max_steps is 100000000; the agent runs with the maximum of 100000",
		"limits.timeout is 9000h0m0s; the agent runs with the maximum of 720h0m0s",
		"agents[0]: limits.max_steps is 200000; the agent runs with the maximum of 100000",
	}, BoundFields(f))
	require.Equal(
		t,
		[]int{100_000, 4, 100_000},
		[]int{f.Limits.MaxSteps, f.Limits.Parallel, f.Agents[0].Spec().Limits.MaxSteps},
	)
	require.Equal(t, Duration(720*time.Hour), f.Limits.Timeout)
	f.Limits.Timeout = math.MaxInt64
	require.Error(t, CheckBounds(f))
}
