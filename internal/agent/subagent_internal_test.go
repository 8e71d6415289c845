package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIDPart checks that call IDs that differ only where idPart cuts or changes them have different
// parts, and that other call IDs, which stored runs use, are kept.
func TestIDPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40)
	parts := map[string]string{}
	for _, id := range []string{"", "call_1", "a_b", "a.b", "a:b", "ä", "ö", long, long + "1", long + "2"} {
		part := idPart(id)
		require.NotContains(t, parts, part, "%q has the part of %q", id, parts[part])
		require.LessOrEqual(t, len(part), 40)
		require.Regexp(t, `^[A-Za-z0-9_.-]*$`, part)
		parts[part] = id
	}
	for _, id := range []string{"call_1", long} {
		require.Equal(t, id, idPart(id))
	}
}
