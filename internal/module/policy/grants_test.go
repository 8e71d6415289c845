package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	g, err := ParseGrants([]string{
		"read:last", "tool:search", "model", "http:API.example.com", "store", "tool:search", "set:limits", "set:model",
	})
	require.NoError(t, err)
	require.Equal(
		t,
		Grants{Read: hook.ReadLast, Model: true, Tools: []string{"search"}, HTTP: []string{"api.example.com"}, Store: true,
			SetModel: true, SetLimits: true},
		g,
	)
	again, err := ParseGrants(GrantStrings(g))
	require.NoError(t, err)
	require.Equal(t, g, again)
	for grant, want := range map[string]string{
		"set:tools":           "want set:model, set:limits or set:labels",
		"files":               `grant "files": unknown grant; want one of read:all`,
		"read":                "want read:all, read:last or read:none",
		"read:some":           "want read:all, read:last or read:none",
		"model:gpt":           "want model alone",
		"tool:":               "want tool:NAME",
		"tool":                "want tool:NAME",
		"http:https://x.org/": "want http:HOST",
		"http:":               "want http:HOST",
		"":                    "unknown grant",
	} {
		_, err := ParseGrants([]string{grant})
		require.ErrorContains(t, err, want)
	}
	_, err = ParseGrants([]string{"read:last", "read:none"})
	require.ErrorContains(t, err, "contradicts read:last")
}
