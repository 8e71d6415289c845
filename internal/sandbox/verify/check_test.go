package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"next", "next_stream", "read", "write", "local_get", "local_set"}
	for name, want := range map[string]string{
		"nxt": "next", "nextstream": "next_stream", "local-get": "local_get", "local_ge": "local_get",
		"x": "", "": "", "completely_different": "",
	} {
		require.Equal(t, want, nearest(name, names), name)
	}
}
