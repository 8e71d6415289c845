package safetool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

func streaming(fn func(ctx context.Context, out *tool.Out) (*abi.Result, error)) tool.Streamer {
	return tool.StreamFunc(
		abi.Tool{Name: "fake"},
		func(ctx context.Context, _ abi.Call, out *tool.Out) (*abi.Result, error) { return fn(ctx, out) },
	)
}

// listen streams a call. It returns the texts of the received chunks, and the result.
func listen(ctx context.Context, t *Tool) (received []string, res *abi.Result, err error) {
	res, err = t.Stream(
		ctx,
		abi.Call{ID: "c1", Name: "fake", Arguments: "{}"},
		toolcall.NewOut(toolcall.Unlimited, toolcall.Unlimited, func(c abi.Chunk) error {
			if c.Kind == abi.ChunkPart {
				received = append(received, "part "+c.Part.Type)
				return nil
			}
			received = append(received, c.Text)
			return nil
		}),
	)
	return received, res, err
}

// TestStream checks the chunks, the result and the error of a streaming tool that keeps or exceeds
// the limits of a result.
func TestStream(t *testing.T) {
	t.Parallel()
	image := abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:,"}`)}
	for name, tc := range map[string]struct {
		call     func(context.Context, *tool.Out) (*abi.Result, error)
		received []string
		want     string
		parts    int
		err      string
	}{
		"pieces are the result": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			_, err := fmt.Fprintf(out, "one %d", 2)
			return nil, errors.Join(err, out.Text(""), out.Text(" three"))
		}, []string{"one 2", " three"}, "one 2 three", 1, ""},
		"the result is the truth": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			return abi.TextResult("all of it"), out.Text("so far")
		}, []string{"so far"}, "all of it", 1, ""},
		"nothing": {func(context.Context, *tool.Out) (*abi.Result, error) { return nil, nil }, nil, "", 1, ""},
		"an error": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			return nil, errors.Join(out.Text("a"), errors.New("broken"))
		}, []string{"a"}, "", 0, "broken"},
		"a panic": {func(_ context.Context, out *tool.Out) (*abi.Result, error) { _ = out.Text("a"); panic("boom") }, []string{"a"}, "", 0, `tool "fake" panicked: boom`},
		"other parts": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			return nil, errors.Join(out.Text("a"), out.Text("b"), out.Part(image), out.Text("c"))
		}, []string{"a", "b", "part image_url", "c"}, "abc", 3, ""},
		"a broken part": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			return nil, out.Part(abi.Part{Type: "file", File: []byte("{")})
		}, nil, "", 0, "not valid JSON"},
		"too much, and told so": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			for i := range 20 {
				if err := out.Text(strings.Repeat("x", 10)); err != nil {
					return nil, fmt.Errorf("at %d: %w", i, err)
				}
			}
			return nil, nil
		}, slicesOf("xxxxxxxxxx", 10), "", 0, "at 10: a piece of 10 bytes"},
		"too much, and not listening": {func(_ context.Context, out *tool.Out) (*abi.Result, error) {
			for range 20 {
				_ = out.Text(strings.Repeat("x", 10))
			}
			return nil, nil
		}, slicesOf("xxxxxxxxxx", 10), strings.Repeat("x", 100) + "\n[cut: this has 110 bytes; the limit for a result is 100 bytes]", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			received, res, err := listen(t.Context(), New(streaming(tc.call), &Options{MaxResult: 100}))
			require.Equal(t, tc.received, received)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, res.Content.String())
			require.Len(t, res.Content.Parts(), tc.parts)
		})
	}
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// TestStreamCalledAsAWhole checks that a streaming tool works without streaming, and that a
// tool that does not stream works with Stream.
func TestStreamCalledAsAWhole(t *testing.T) {
	t.Parallel()
	res, err := call(t.Context(), New(streaming(func(_ context.Context, out *tool.Out) (*abi.Result, error) {
		return nil, errors.Join(out.Text("a"), out.Text("b"))
	}), nil))
	require.NoError(t, err)
	require.Equal(t, "ab", res.Content.String())

	received, res, err := listen(
		t.Context(),
		New(fake(func(context.Context) (*abi.Result, error) { return abi.TextResult("whole"), nil }), nil),
	)
	require.NoError(t, err)
	require.Empty(t, received)
	require.Equal(t, "whole", res.Content.String())
}

// TestStreamIsLeftBehind checks a streaming tool that exceeds its timeout. It counts as abandoned
// until it returns, and receives an error when it writes late.
func TestStreamIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := errors.New("nobody listens")
		late := make(chan error, 1)
		var ended atomic.Bool
		tool := New(streaming(func(ctx context.Context, out *tool.Out) (*abi.Result, error) {
			time.Sleep(time.Hour)
			_, err := io.WriteString(out, "late")
			late <- err
			return nil, err
		}), &Options{Timeout: time.Minute})
		_, err := tool.Stream(
			t.Context(),
			abi.Call{Name: "fake"},
			toolcall.NewOut(toolcall.Unlimited, toolcall.Unlimited, func(abi.Chunk) error {
				if ended.Load() {
					return over
				}
				return nil
			}),
		)
		ended.Store(true)
		require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
		require.Equal(t, 1, tool.Left())
		require.ErrorIs(t, <-late, over)
		synctest.Wait()
		require.Zero(t, tool.Left())
	})
}
