package model_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func busy(after time.Duration) *model.Error {
	return &model.Error{Code: abi.CodeModel, Message: "busy", Status: 503, Retryable: true, RetryAfter: after}
}

var wrong = &model.Error{Code: abi.CodeModel, Message: "wrong", Status: 400}

func ask(name string) *model.Request {
	return &model.Request{Model: name, Messages: []abi.Message{abi.User("hi")}}
}

func discard(abi.Chunk) error { return nil }

// cut returns a reply that fails after one chunk.
func cut(c abi.Chunk) scripted.Reply { return scripted.Reply{Chunks: []abi.Chunk{c}, Err: busy(0)} }

// TestRetry checks when calls are retried, the delays, the reported attempts and the final error.
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replies []scripted.Reply
		opts    model.RetryOptions
		sink    func(abi.Chunk) error
		timeout time.Duration
		calls   int
		err     string // empty for no error
		waits   []time.Duration
	}{
		"at once":       {replies: []scripted.Reply{scripted.Text("a")}, calls: 1},
		"after a while": {replies: []scripted.Reply{{Err: busy(0)}, {Err: busy(0)}, scripted.Text("a")}, calls: 3, waits: []time.Duration{500 * time.Millisecond, time.Second}},
		"never": {
			replies: []scripted.Reply{
				{Err: busy(0)}, {Err: busy(0)}, {Err: busy(0)}, scripted.Text("a"),
			},
			calls: 3, err: "busy (tried 3 times)", waits: []time.Duration{500 * time.Millisecond, time.Second},
		},
		"no retries":     {replies: []scripted.Reply{{Err: busy(0)}}, opts: model.RetryOptions{MaxRetries: -1}, calls: 1, err: "busy"},
		"not retryable":  {replies: []scripted.Reply{{Err: wrong}}, calls: 1, err: "wrong"},
		"at last wrong":  {replies: []scripted.Reply{{Err: busy(0)}, {Err: wrong}}, calls: 2, err: "wrong (tried 2 times)", waits: []time.Duration{500 * time.Millisecond}},
		"no model error": {replies: []scripted.Reply{{Err: errors.New("odd")}}, calls: 1, err: "odd"},
		"growing": {
			replies: []scripted.Reply{
				{Err: busy(0)}, {Err: busy(0)}, {Err: busy(0)}, {Err: busy(0)},
				scripted.Text("a"),
			},
			opts:  model.RetryOptions{MaxRetries: 4, Base: time.Second, Max: 3 * time.Second},
			calls: 5, waits: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second},
		},
		"asked to wait":      {replies: []scripted.Reply{{Err: busy(time.Minute)}, scripted.Text("a")}, calls: 2, waits: []time.Duration{-time.Minute}},
		"asked for too long": {replies: []scripted.Reply{{Err: busy(time.Hour)}}, calls: 1, err: "busy (the endpoint asks for a pause of 1h0m0s)"},
		"no time":            {replies: []scripted.Reply{{Err: busy(20 * time.Second)}}, timeout: 10 * time.Second, calls: 1, err: "busy (no time is left for another try)"},
		"no time any more": {
			replies: []scripted.Reply{{Err: busy(0)}, {Err: busy(20 * time.Second)}},
			timeout: 10 * time.Second,
			calls:   2,
			err:     "busy (tried 2 times, no time is left for another try)",
			waits:   []time.Duration{500 * time.Millisecond},
		},
		"deadline":            {replies: []scripted.Reply{{Hang: true}}, timeout: time.Second, calls: 1, err: context.DeadlineExceeded.Error()},
		"delivered text":      {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkText, Text: "a"})}, sink: discard, calls: 1, err: "busy"},
		"delivered reasoning": {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkReasoning, Text: "a"})}, sink: discard, calls: 1, err: "busy"},
		"delivered call":      {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkToolCall, Name: "a"})}, sink: discard, calls: 1, err: "busy"},
		"delivered part":      {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkPart, Part: &abi.Part{}})}, sink: discard, calls: 1, err: "busy"},
		"delivered nothing":   {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkText}), scripted.Text("a")}, sink: discard, calls: 2, waits: []time.Duration{500 * time.Millisecond}},
		"not streamed":        {replies: []scripted.Reply{cut(abi.Chunk{Kind: abi.ChunkText, Text: "a"}), scripted.Text("a")}, calls: 2, waits: []time.Duration{500 * time.Millisecond}},
		"sink refuses":        {replies: []scripted.Reply{scripted.Text("a")}, sink: func(abi.Chunk) error { return busy(0) }, calls: 1, err: "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.timeout)
					defer cancel()
				}
				var attempts []model.Attempt
				tc.opts.OnAttempt = func(_ context.Context, a model.Attempt) { attempts = append(attempts, a) }
				m := scripted.New(tc.replies...)
				begun := time.Now()
				res, err := model.WithRetry(m, &tc.opts).Generate(ctx, ask("m"), tc.sink)
				took := time.Since(begun)

				require.Len(t, m.Requests(), tc.calls)
				if tc.err == "" {
					require.NoError(t, err)
					require.Equal(t, "a", res.Message.Content.String())
				} else {
					require.EqualError(t, err, tc.err)
				}
				require.Len(t, attempts, len(tc.waits))
				var sum time.Duration
				for i, want := range tc.waits {
					a := attempts[i]
					require.Equal(t, model.Attempt{Model: "m", Err: a.Err, Tries: i + 1, Next: "m", Wait: a.Wait}, a)
					if want < 0 { // negative values are exact
						require.Equal(t, -want, a.Wait)
					} else {
						require.InDelta(t, want, a.Wait, float64(want)/4+1)
					}
					sum += a.Wait
				}
				if tc.timeout == 0 {
					require.Equal(t, sum, took)
				}
			})
		})
	}
}

func TestRetryKeepsTheLastError(t *testing.T) {
	t.Parallel()
	last := &model.Error{
		Code:       abi.CodeUnavailable,
		Message:    "down",
		Status:     502,
		Retryable:  true,
		RetryAfter: time.Millisecond,
	}
	m := scripted.New(scripted.Reply{Err: busy(0)}, scripted.Reply{Err: last})
	_, err := model.WithRetry(m, &model.RetryOptions{
		MaxRetries: 1, Sleep: func(context.Context, time.Duration) error { return nil },
	}).Generate(t.Context(), ask("m"), nil)
	require.ErrorIs(t, err, last)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.Equal(
		t,
		model.Error{
			Code:       last.Code,
			Message:    "down (tried 2 times)",
			Status:     502,
			Retryable:  true,
			RetryAfter: time.Millisecond,
			Err:        last,
		},
		*e,
	)
	require.Equal(t, "down", last.Message)
}

func TestRetryEndsInItsPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		_, err := model.WithRetry(scripted.New(scripted.Reply{Err: busy(time.Minute)}), &model.RetryOptions{}).
			Generate(ctx, ask("m"), nil)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestFallback(t *testing.T) {
	t.Parallel()
	down := &model.Error{Code: abi.CodeUnavailable, Message: "down"}
	for name, tc := range map[string]struct {
		first, second scripted.Reply
		sink          func(abi.Chunk) error
		err           string
		fellBack      bool
	}{
		"first answers":  {first: scripted.Text("a")},
		"busy":           {first: scripted.Reply{Err: busy(0)}, second: scripted.Text("a"), fellBack: true},
		"unavailable":    {first: scripted.Reply{Err: down}, second: scripted.Text("a"), fellBack: true},
		"wrong":          {first: scripted.Reply{Err: wrong}, err: "wrong"},
		"delivered":      {first: cut(abi.Chunk{Kind: abi.ChunkText, Text: "a"}), sink: discard, err: "busy"},
		"both busy":      {first: scripted.Reply{Err: busy(0)}, second: scripted.Reply{Err: busy(0)}, fellBack: true, err: "no model answered: big: busy; small: busy"},
		"then wrong":     {first: scripted.Reply{Err: busy(0)}, second: scripted.Reply{Err: wrong}, fellBack: true, err: "no model answered: big: busy; small: wrong"},
		"then cut":       {first: scripted.Reply{Err: busy(0)}, second: cut(abi.Chunk{Kind: abi.ChunkText, Text: "a"}), sink: discard, fellBack: true, err: "busy"},
		"no model error": {first: scripted.Reply{Err: context.Canceled}, err: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			big, small := scripted.New(tc.first), scripted.New(tc.second)
			var attempts []model.Attempt
			m := model.WithFallback(
				[]model.Choice{{Model: big}, {Model: small, Name: "small"}},
				func(_ context.Context, a model.Attempt) {
					attempts = append(attempts, a)
				},
			)
			req := ask("big")
			res, err := m.Generate(t.Context(), req, tc.sink)
			if tc.err == "" {
				require.NoError(t, err)
				require.Equal(t, "a", res.Message.Content.String())
			} else {
				require.EqualError(t, err, tc.err)
			}
			require.Equal(t, "big", big.Requests()[0].Model)
			require.Equal(t, "big", req.Model)
			if !tc.fellBack {
				require.Empty(t, attempts)
				require.Empty(t, small.Requests())
				return
			}
			require.Equal(t, "small", small.Requests()[0].Model)
			require.Len(t, attempts, 1)
			require.Equal(t, "small", attempts[0].Next)
		})
	}
}

func TestFallbackAfterRetries(t *testing.T) {
	t.Parallel()
	big := scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Reply{Err: busy(0)} })
	small := scripted.New(scripted.Text("a"))
	var tried []string
	note := func(_ context.Context, a model.Attempt) { tried = append(tried, a.Err.Message+" → "+a.Next) }
	retried := model.WithRetry(
		big,
		&model.RetryOptions{OnAttempt: note, Sleep: func(context.Context, time.Duration) error { return nil }},
	)
	res, err := model.WithFallback([]model.Choice{{Model: retried}, {Model: small, Name: "small"}}, note).
		Generate(t.Context(), ask("big"), discard)
	require.NoError(t, err)
	require.Equal(t, "a", res.Message.Content.String())
	require.Equal(t, []string{"busy → big", "busy → big", "busy (tried 3 times) → small"}, tried)
}
