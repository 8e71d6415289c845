package modules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCombinedWarnings(t *testing.T) {
	t.Parallel()
	for grants, want := range map[string]int{
		"":                               0,
		"model":                          0,
		"http:api.example.com":           1,
		"read:none http:api.example.com": 0,
		"tool:search":                    1,
		"tool:search http:x":             3,
		"store":                          1,
		"store http:x":                   3,
		"model http:x":                   2,
		"read:none store":                0,
	} {
		require.Len(t, CombinedWarnings(true, strings.Fields(grants), ""), want, grants)
	}
	require.Equal(
		t,
		[]string{"it reads the conversation and may call api.example.com: it can send the conversation there"},
		CombinedWarnings(true, []string{"http:api.example.com"}, ""),
	)
	require.Empty(t, CombinedWarnings(false, []string{"http:api.example.com"}, ""))
	require.Contains(t, CombinedWarnings(true, []string{"http:HOST"}, "if it is granted")[0], "other hosts")
}
