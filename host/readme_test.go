package host_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme holds the README's code to the tested example.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(example), "func Example() {\n")
	body, _, ok := strings.Cut(body, "\t// Output:")
	require.True(t, ok)
	body = strings.TrimSpace(strings.ReplaceAll("\n"+body, "\n\t", "\n"))
	require.Contains(t, string(readme), body)
}
