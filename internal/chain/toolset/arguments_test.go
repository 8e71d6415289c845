package toolset

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadArgumentsAreCutBetweenCharacters checks that BadArguments does not cut a character of the
// quoted arguments in half.
func TestBadArgumentsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	text := BadArguments("search", "a"+strings.Repeat("é", 600), errors.New("no JSON")).Content.String()
	require.Contains(t, text, "They were: a"+strings.Repeat("é", 511)+"…\n")
	require.NotContains(t, text, "\ufffd")
}
