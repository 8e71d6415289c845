package store

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// untyped matches a parameter that is compared with a number. PostgreSQL gives such a parameter 32 bits,
// and then rejects the statement for times in milliseconds.
var untyped = regexp.MustCompile(`(^|[^(])\$\d+ *(=|<>|[<>]=?) *\d`)

// TestParametersHaveTypes checks that no statement has a parameter of 32 bits.
func TestParametersHaveTypes(t *testing.T) {
	t.Parallel()
	require.Regexp(t, untyped, "WHERE $2 > 0 AND x")
	require.NotRegexp(t, untyped, "WHERE CAST($2 AS BIGINT) > 0")
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if matched, _ := filepath.Match("*_test.go", file); matched {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, untyped.FindString(string(text)), "%s: write CAST($N AS BIGINT)", file)
	}
}
