package middlewaretest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type note struct {
	Text string            `json:"text"`
	Tags map[string]string `json:"tags,omitempty"`
}

// inHook returns a function that runs fn in a hook, always of the same host.
func inHook(t *testing.T) func(fn func(ctx *middleware.Context) error) error {
	t.Helper()
	var current func(ctx *middleware.Context) error
	h := middlewaretest.New(middleware.Options{}, middleware.WithAfterTools(
		func(ctx *middleware.Context, _ *middleware.ToolsEnd) error { return current(ctx) }))
	return func(fn func(ctx *middleware.Context) error) error {
		current = fn
		require.NoError(t, h.Wipe(), "locals do not live in memory")
		_, err := h.AfterTools(abi.AfterToolsInput{})
		return err
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	hook := inHook(t)
	notes := middleware.Local[[]note]("notes")
	get := func() (value []note, ok bool) {
		require.NoError(t, hook(func(ctx *middleware.Context) (err error) {
			value, ok, err = notes.Get(ctx)
			return err
		}))
		return value, ok
	}
	_, ok := get()
	require.False(t, ok)

	want := []note{{Text: "<a>", Tags: map[string]string{"k": "v"}}, {Text: "b"}}
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		require.NoError(t, notes.Set(ctx, want))
		mine, ok, err := notes.Get(ctx)
		require.True(t, ok, "seen in the same hook")
		require.Equal(t, want, mine)
		return err
	}))
	got, ok := get()
	require.True(t, ok)
	require.Equal(t, want, got)

	require.Error(t, hook(func(ctx *middleware.Context) error {
		require.NoError(t, notes.Delete(ctx))
		return errors.New("the hook fails")
	}))
	_, ok = get()
	require.True(t, ok, "a hook that failed deleted nothing")

	require.NoError(t, hook(func(ctx *middleware.Context) error { return notes.Delete(ctx) }))
	_, ok = get()
	require.False(t, ok)

	require.NoError(t,
		hook(func(ctx *middleware.Context) error { return middleware.Local[string]("notes").Set(ctx, "text") }))
	err := hook(func(ctx *middleware.Context) error { _, _, err := notes.Get(ctx); return err })
	require.ErrorContains(t, err, `local "notes": "text" does not fit; want an array`)
	err = hook(func(ctx *middleware.Context) error {
		return middleware.Local[int](strings.Repeat("k", 300)).Set(ctx, 1)
	})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
	require.ErrorContains(
		t,
		hook(func(ctx *middleware.Context) error { return middleware.Local[func()]("f").Set(ctx, nil) }),
		`local "f": values of type func() cannot be written`,
	)
}

func TestLocalVersions(t *testing.T) {
	t.Parallel()
	hook := inHook(t)
	value := middleware.Local[int]("n")
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		_, version, err := value.Load(ctx)
		require.NoError(t, err)
		require.Zero(t, version)
		ok, err := value.CompareAndSet(ctx, 1, version)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = value.CompareAndSet(ctx, 2, version)
		require.NoError(t, err)
		require.False(t, ok, "it changed meanwhile")

		calls := 0
		require.NoError(t, value.Update(ctx, func(old int) (int, error) {
			if calls++; calls == 1 { // another hook changes the value first
				require.NoError(t, value.Set(ctx, 10))
			}
			return old + 1, nil
		}))
		require.Equal(t, 2, calls)
		require.EqualError(t, value.Update(ctx, func(int) (int, error) { return 0, errors.New("no") }), "no")
		n, _, err := value.Get(ctx)
		require.Equal(t, 11, n)
		return err
	}))
}

func TestCounter(t *testing.T) {
	t.Parallel()
	hook := inHook(t)
	counter := middleware.Counter(abi.SharedPrefix + "calls")
	require.Error(t, hook(func(ctx *middleware.Context) error {
		n, err := counter.Get(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		for want := range int64(3) {
			n, err := counter.Add(ctx, 1)
			require.NoError(t, err)
			require.Equal(t, want+1, n)
		}
		return errors.New("the hook fails")
	}))
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		n, err := counter.Add(ctx, -5)
		require.Equal(t, int64(-2), n, "additions stay when the hook fails")
		require.NoError(t, err)
		return counter.Reset(ctx)
	}))
	require.NoError(t, hook(func(ctx *middleware.Context) error {
		n, err := counter.Get(ctx)
		require.Zero(t, n)
		return err
	}))
}
