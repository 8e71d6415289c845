package sdktest

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// ported runs a test on an example's ports to languages other than Go, and returns the number of
// ports.
func ported(t *testing.T, example string, test func(t *testing.T, h *Host)) (languages int) {
	t.Helper()
	for _, language := range guestbuild.Languages {
		place := "examples/wasm-middlewares/" + example + "/" + language
		if _, err := os.Stat("../../" + place); err != nil {
			continue
		}
		languages++
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			h, err := New(t.Context(), guestbuild.Foreign(t, place))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
			test(t, h)
		})
	}
	return languages
}
