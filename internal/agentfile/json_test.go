package agentfile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// TestJSON checks that files are converted to JSON within bounds, and that errors have positions.
func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "null",
		"# only a comment\n":                    "null",
		"name: clerk # of the books\nn: [1, a]": `{"name":"clerk","n":[1,"a"]}`,
		"a: &x {b: true}\nc: *x\n":              `{"a":{"b":true},"c":{"b":true}}`,
		"instruction: |\n  one\n  two\n":        `{"instruction":"one\ntwo\n"}`,
		`{"name": "clerk"}`:                     `{"name":"clerk"}`,
		"unknown: 1":                            `{"unknown":1}`,
	} {
		got, err := agentfile.JSON("agent.yaml", []byte(text))
		require.NoError(t, err, text)
		require.JSONEq(t, want, string(got), text)
	}
	for text, want := range map[string]string{
		"a: [":                                "agent.yaml",
		"\xff":                                "UTF-8",
		"a: 1\na: 2":                          "agent.yaml:2",
		strings.Repeat("[", 1000):             "nested too deeply",
		strings.Repeat(" ", 300<<10):          "larger than",
		"a: .inf":                             "cannot be written in JSON",
		aliases("config"):                     "values of more than 1048576 bytes",
		"middlewares: [" + aliases("m") + "]": "agent.yaml",
	} {
		_, err := agentfile.JSON("agent.yaml", []byte(text))
		require.ErrorContains(t, err, want, "%.40s", text)
	}
}

// aliases returns a small file whose values are long after aliases are resolved.
func aliases(key string) string {
	return "a: &x " + strings.Repeat("x", 50_000) + "\n" + key + ": [" + strings.Repeat("*x, ", 40_000) + "]\n"
}

// TestAliasesAreBounded checks that Parse rejects a configuration that repeats a long value by
// aliases.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50_000)
	for name, anchor := range map[string]string{
		"value":  "&x " + long,
		"key":    "&x {" + long + ": 1}",
		"number": "&x 1" + strings.Repeat("0", 50_000),
	} {
		text := "middlewares: [{module: m, config: {a: " + anchor + ", list: [" + strings.Repeat("*x, ", 40_000) + "]}}]\n"
		_, err := agentfile.Parse("agent.yaml", []byte(text))
		require.ErrorContains(t, err, "values of more than 1048576 bytes", name)
	}
}
