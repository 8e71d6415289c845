package safetool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fake(call func(ctx context.Context) (*abi.Result, error)) tool.Tool {
	return tool.Func(
		abi.Tool{Name: "fake"},
		func(ctx context.Context, _ abi.Call) (*abi.Result, error) { return call(ctx) },
	)
}

func call(ctx context.Context, t tool.Tool) (*abi.Result, error) {
	return t.Call(ctx, abi.Call{ID: "c1", Name: "fake", Arguments: "{}"})
}

func TestSafePassesResultsOn(t *testing.T) {
	t.Parallel()
	want := &abi.Result{
		Content: abi.Parts(
			abi.Part{Type: abi.PartText, Text: "ä"},
			abi.Part{Type: abi.PartImage, ImageURL: json.RawMessage(`{"url":"data:,"}`)},
			abi.Part{Type: "video", Unknown: abi.Fields{{Name: "fps", Value: json.RawMessage("30.0")}}}),
		IsError: true,
		Extra:   json.RawMessage(`{"a":1}`),
	}
	got, err := call(t.Context(), New(fake(func(context.Context) (*abi.Result, error) { return want, nil }), nil))
	require.NoError(t, err)
	require.Equal(t, want, got)

	for name, res := range map[string]*abi.Result{"nothing": nil, "an empty text": abi.TextResult("")} {
		got, err := call(t.Context(), New(fake(func(context.Context) (*abi.Result, error) { return res, nil }), nil))
		require.NoError(t, err, name)
		require.Equal(t, abi.TextResult(""), got, name)
	}
	got, err = call(t.Context(), New(fake(func(context.Context) (*abi.Result, error) { return &abi.Result{}, nil }), nil))
	require.NoError(t, err)
	require.True(t, got.Content.IsNull())
}

func TestSafeCutsResults(t *testing.T) {
	t.Parallel()
	image := func(n int) abi.Part {
		return abi.Part{Type: abi.PartImage, ImageURL: json.RawMessage(`{"url":"` + strings.Repeat("x", n) + `"}`)}
	}
	for name, tc := range map[string]struct {
		in   abi.Content
		want string // expected text
	}{
		"a text":             {abi.Text(strings.Repeat("x", 101)), strings.Repeat("x", 100) + "\n[cut: this has 101 bytes; the limit for a result is 100 bytes]"},
		"in a rune":          {abi.Text(strings.Repeat("x", 99) + "ä"), strings.Repeat("x", 99) + "\n[cut: this has 101 bytes; the limit for a result is 100 bytes]"},
		"as long as allowed": {abi.Text(strings.Repeat("x", 98) + "ä"), strings.Repeat("x", 98) + "ä"},
		"invalid UTF-8":      {abi.Text("a\xffb\xf0\x9f"), "a\ufffdb\ufffd"},
		"only bad bytes":     {abi.Text(strings.Repeat("\x80", 101)), "\ufffd\n[cut: this has 101 bytes; the limit for a result is 100 bytes]"},
		"parts share the limit": {abi.Parts(textPart(strings.Repeat("a", 30)), textPart(strings.Repeat("b", 30))),
			strings.Repeat("a", 30) + "bbbbbb\n[cut: this has 30 bytes; the limit for a result is 100 bytes]"},
		"a large part":     {abi.Parts(image(90)), `[left out: a part of type "image_url" of 133 bytes; the limit for a result is 100 bytes]`},
		"too many parts":   {abi.Parts(make([]abi.Part, 9)...), "[cut: 6 more parts of the result; the limit is 100 bytes]"},
		"text and media":   {abi.Parts(textPart(strings.Repeat("a", 30)), image(20)), strings.Repeat("a", 30)},
		"not JSON":         {abi.Parts(abi.Part{Type: "file", File: json.RawMessage("{")}), `[left out: a part of type "file" that is not valid JSON]`},
		"a part not UTF-8": {abi.Parts(abi.Part{Type: "file", File: json.RawMessage("\"\xff\"")}), `[left out: a part of type "file" that is not valid JSON]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			safe := New(
				fake(func(context.Context) (*abi.Result, error) { return &abi.Result{Content: tc.in}, nil }),
				&Options{MaxResult: 100},
			)
			res, err := call(t.Context(), safe)
			require.NoError(t, err)
			require.Equal(t, tc.want, res.Content.String())
			b, err := abijson.Marshal(res)
			require.NoError(t, err)
			require.NoError(t, jsoncodec.Valid(b))
		})
	}
}

func TestSafeErrors(t *testing.T) {
	t.Parallel()
	sentinel := errors.New("as it is")
	for name, tc := range map[string]struct {
		call func(context.Context) (*abi.Result, error)
		want string
	}{
		"an error":            {func(context.Context) (*abi.Result, error) { return nil, sentinel }, "as it is"},
		"a panic":             {func(context.Context) (*abi.Result, error) { panic("boom") }, `tool "fake" panicked: boom`},
		"a runtime panic":     {func(context.Context) (*abi.Result, error) { var none []error; return nil, none[len(none)] }, "index out of range"},
		"the goroutine's end": {func(context.Context) (*abi.Result, error) { runtime.Goexit(); return nil, nil }, `tool "fake" ended its goroutine`},
		"a long error":        {func(context.Context) (*abi.Result, error) { return nil, errors.New(strings.Repeat("x", 1000)) }, "[cut: this has 1000 bytes; the limit for a result is 100 bytes]"},
		"an error not UTF-8":  {func(context.Context) (*abi.Result, error) { return nil, errors.New("a\xff") }, "a\ufffd"},
		"a bad extra":         {func(context.Context) (*abi.Result, error) { return &abi.Result{Extra: json.RawMessage("[]")}, nil }, "extra must be a JSON object"},
		"a broken extra":      {func(context.Context) (*abi.Result, error) { return &abi.Result{Extra: json.RawMessage("{")}, nil }, "extra must be a JSON object"},
		"a deep extra": {func(context.Context) (*abi.Result, error) {
			return &abi.Result{Extra: json.RawMessage(`{"a":` + strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100) + "}")}, nil
		}, "extra must be a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := call(t.Context(), New(fake(tc.call), &Options{MaxResult: 100}))
			require.Nil(t, res)
			require.ErrorContains(t, err, tc.want)
			require.True(t, utf8.ValidString(err.Error()))
		})
	}
	_, err := call(t.Context(), New(fake(func(context.Context) (*abi.Result, error) { return nil, sentinel }), nil))
	require.ErrorIs(t, err, sentinel)

	long := &abi.Error{Code: abi.CodeUnavailable, Message: strings.Repeat("x", 1000)}
	_, err = call(
		t.Context(),
		New(fake(func(context.Context) (*abi.Result, error) { return nil, long }), &Options{MaxResult: 100}),
	)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable}, "a truncated error keeps its code")
	require.Less(t, len(err.Error()), 200)

	wrapped := fmt.Errorf("%s: %w", strings.Repeat("x", 1000), sentinel)
	_, err = call(
		t.Context(),
		New(fake(func(context.Context) (*abi.Result, error) { return nil, wrapped }), &Options{MaxResult: 100}),
	)
	require.ErrorIs(t, err, sentinel, "a truncated error wraps its cause")
	require.Less(t, len(err.Error()), 200)

	var panicked *PanicError
	_, err = call(t.Context(), New(fake(func(context.Context) (*abi.Result, error) { panic("boom") }), nil))
	require.ErrorAs(t, err, &panicked)
	require.Contains(t, string(panicked.Stack), "safe_test.go")
}

func TestSafeTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		obedient := New(fake(func(ctx context.Context) (*abi.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), &Options{Timeout: time.Minute})
		start := time.Now()
		_, err := call(t.Context(), obedient)
		require.EqualError(t, err, `tool "fake" did not answer within 1m0s`)
		require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
		require.Equal(t, time.Minute, time.Since(start))
		synctest.Wait()
		require.Zero(t, obedient.Left())
	})
}

func TestSafeLeavesBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stubborn := New(fake(func(context.Context) (*abi.Result, error) {
			<-release
			return abi.TextResult("late"), nil
		}), &Options{MaxLeft: 2})

		cause := errors.New("the run was canceled")
		for range 2 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			_, err := call(ctx, stubborn)
			require.ErrorIs(t, err, cause)
		}
		require.Equal(t, 2, stubborn.Left())

		_, err := call(t.Context(), stubborn)
		require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})
		require.ErrorContains(t, err, "2 earlier calls did not end")

		close(release)
		synctest.Wait()
		require.Zero(t, stubborn.Left())
		res, err := call(t.Context(), stubborn)
		require.NoError(t, err, "a tool that came back is called again")
		require.Equal(t, "late", res.Content.String())
	})
}
