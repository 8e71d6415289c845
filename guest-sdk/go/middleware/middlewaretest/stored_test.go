package middlewaretest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

func TestStored(t *testing.T) {
	t.Parallel()
	var current func(ctx *middleware.Context) error
	h := middlewaretest.New(middleware.Options{}, middleware.WithAfterTools(
		func(ctx *middleware.Context, _ *middleware.ToolsEnd) error { return current(ctx) }))
	hook := func(fn func(ctx *middleware.Context) error) error {
		current = fn
		_, err := h.AfterTools(abi.AfterToolsInput{})
		return err
	}
	notes := middleware.Stored[[]string]("notes")
	count := middleware.StoredCounter("count")
	require.NoError(t, h.SetStored("count", 5))

	require.Error(t, hook(func(ctx *middleware.Context) error {
		_, ok, err := notes.Get(ctx)
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, notes.Set(ctx, []string{"a"}))
		n, err := count.Add(ctx, 2)
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		return &abi.Error{Code: abi.CodeInvalid, Message: "it failed"}
	}))
	require.JSONEq(t, `["a"]`, string(h.Stored()["notes"]), "what a hook that fails has changed stays")

	require.NoError(t, hook(func(ctx *middleware.Context) error {
		_, version, err := notes.Load(ctx)
		require.NoError(t, err)
		ok, err := notes.CompareAndSet(ctx, []string{"b"}, version+1, nil)
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t,
			notes.Update(ctx, time.Minute, func(old []string) ([]string, error) { return append(old, "c"), nil }))
		value, _, err := notes.Get(ctx)
		require.Equal(t, []string{"a", "c"}, value)
		return err
	}))
	h.Run.NowMS += time.Minute.Milliseconds()
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		_, ok, err := notes.Get(ctx)
		require.False(t, ok, "its time is over")
		require.NoError(t, count.Reset(ctx))
		n, err2 := count.Get(ctx)
		require.NoError(t, err2)
		require.Zero(t, n)
		return err
	}))
	h.NoStore = true
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		require.ErrorIs(t, notes.Set(ctx, nil), &abi.Error{Code: abi.CodeDenied})
		return nil
	}))
}
