package contract_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// The tables, the README and the vectors must describe the same hooks and imports.
func TestTables(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../abi/README.md")
	require.NoError(t, err)
	text := string(b)
	for _, h := range contract.HookTable() {
		require.True(t, contract.Known(h.Name))
		require.Contains(t, text, "`"+string(h.Name)+"`")
		in, answer := contract.Exchange(h.Name)
		require.NotNil(t, in, h.Name)
		require.NotNil(t, answer, h.Name)
		_, stops := answer.(interface{ Ending() *abi.Control })
		require.Equal(t, h.Stop, stops, "%s: an answer that can end the run contains Control", h.Name)
		require.True(t, h.Stop || !h.Interrupt, h.Name)
		_, err := os.Stat("../../testdata/abi/" + string(h.Name) + ".json")
		require.NoError(t, err, "every hook has a vector")
	}
	require.False(t, contract.Known(""))
	require.False(t, contract.Known("before"))
	for _, i := range contract.ImportTable() {
		require.Contains(t, text, "`"+i.Name+"`")
		require.Empty(t, strings.Trim(i.Params+i.Result, "iI"), i.Name)
		if i.Grant != "" {
			require.Contains(t, text, "*grant `"+i.Grant+"`*", i.Name)
		}
	}
}

// docs/adding-a-hook.md must name files that exist.
func TestAddingAHook(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/adding-a-hook.md")
	require.NoError(t, err)
	steps := 0
	for _, line := range strings.Split(string(b), "\n") {
		if len(line) < 3 || line[0] < '0' || line[0] > '9' {
			continue
		}
		steps++
		_, rest, ok := strings.Cut(line, "`")
		path, _, closed := strings.Cut(rest, "`")
		require.True(t, ok && closed, line)
		_, err := os.Stat("../../" + path)
		require.NoError(t, err, line)
	}
	require.LessOrEqual(t, steps, 12, "a new hook needs at most 12 hand-written files")
}
