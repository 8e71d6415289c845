package pump

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

type putter = func(abi.Chunk) error

// TestRun checks that chunks are passed on in order while the maker continues, and the remaining
// ones after it has returned. Errors, panics and cancellation must end Run.
func TestRun(t *testing.T) {
	t.Parallel()
	text := func(s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkText, Text: s} }
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		var got []string
		first := make(chan struct{})
		res, err := Run(t.Context(), func(_ context.Context, chunks []abi.Chunk, final bool) error {
			for _, c := range chunks {
				got = append(got, c.Text)
			}
			if len(got) == 1 {
				require.False(t, final)
				close(first)
			}
			return nil
		}, true, "it", func(_ context.Context, put putter) (int, error) {
			require.NoError(t, put(text("a")))
			<-first // the chunk is passed on while the maker waits
			return 7, errors.Join(put(text("b")), put(text("c")))
		})
		require.NoError(t, err)
		require.Equal(t, 7, res)
		require.Equal(t, []string{"a", "b", "c"}, got)
	})
	t.Run("much", func(t *testing.T) {
		t.Parallel()
		var got strings.Builder
		finals := 0
		_, err := Run(t.Context(), func(_ context.Context, chunks []abi.Chunk, final bool) error {
			require.LessOrEqual(t, len(chunks), 256)
			for _, c := range chunks {
				got.WriteString(c.Text)
			}
			if final {
				finals++
			}
			return nil
		}, true, "it", func(_ context.Context, put putter) (int, error) {
			for range 3000 {
				require.NoError(t, put(text("x")))
			}
			return 0, nil
		})
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x", 3000), got.String())
		require.Equal(t, 1, finals)
	})
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		out    error
		panics bool
	}{"out fails": {out: refused}, "out panics": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			try := func() (int, error) {
				return Run(t.Context(), func(context.Context, []abi.Chunk, bool) error {
					if calls++; tc.panics {
						panic("broken")
					}
					return tc.out
				}, true, "it", func(ctx context.Context, put putter) (int, error) {
					require.NoError(t, put(text("a")))
					<-ctx.Done() // the failure of out cancels the context
					return 0, put(text("b"))
				})
			}
			if tc.panics {
				require.PanicsWithValue(t, "broken", func() { _, _ = try() }, "the panic continues on the goroutine of the run")
			} else {
				_, err := try()
				require.ErrorIs(t, err, refused)
			}
			require.Equal(t, 1, calls)
		})
	}
	t.Run("the maker panics", func(t *testing.T) {
		t.Parallel()
		_, err := Run(t.Context(), func(context.Context, []abi.Chunk, bool) error { return nil }, true, "the tool",
			func(context.Context, putter) (int, error) { panic("oh") })
		require.ErrorContains(t, err, "the tool failed: oh")
	})
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := Run(
			ctx,
			func(context.Context, []abi.Chunk, bool) error { return nil },
			true,
			"it",
			func(_ context.Context, put putter) (int, error) {
				cancel(refused)
				return 0, put(text("a"))
			},
		)
		require.ErrorIs(t, err, refused)
	})
}
