package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCoding checks that the coding agent fixes a copy of its project with a person's approval, and
// that it does not change protected files.
func TestCoding(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the modules of an agent")
	}
	t.Parallel()
	coding := example{
		name:    "coding",
		servers: map[string]string{"workspace": "coding/workspace"},
		prepare: func(t *testing.T) string {
			dir := filepath.Join(t.TempDir(), "project")
			require.NoError(t, os.CopyFS(dir, os.DirFS("coding/project")))
			return dir
		},
		answers: map[string]json.RawMessage{
			"call_11": json.RawMessage(`{"decision":"approve"}`),
			"call_12": json.RawMessage(`{"decision":"approve"}`),
		},
	}
	out := coding.test(t)
	out.require(
		t,
		"plan plan",
		"retry-tools tool_retried",
		"anti-loop loop",
		"call-log log",
		"validate-args answers call_9",
		"tool-policy answers call_10",
		"asked about call_11",
		"asked about call_12",
		"tool answers call_12",
	)
	require.Contains(t, string(coding.read(t, "conversation.json")), `Contents of docs/style.md, imported by AGENTS.md`)
	require.Contains(t, out.result(t, "call_7"), "Skill tests, from skills/tests/SKILL.md")
	require.Contains(t, out.result(t, "call_3"), `Of("Bread & butter") = "bread---butter"`)
	require.Equal(t, "ok  \texample.com/slug\n", out.result(t, "call_13"))
	require.Contains(t, out.answer(t), "The pipeline I may not change")

	for _, name := range []string{"go.mod", ".ci/deploy.yaml", "AGENTS.md"} {
		before, err := os.ReadFile(filepath.Join("coding", "project", name))
		require.NoError(t, err)
		after, err := os.ReadFile(filepath.Join(out.folder, name))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
}
