package chain

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStreamOfAModel checks wrappers that read, change, replace or abandon the stream of a model
// call. It checks the chunks that the caller receives, the answer, and the source of the answer.
func TestStreamOfAModel(t *testing.T) {
	t.Parallel()
	read := func(ctx context.Context, c *hook.Call) error { return c.StreamModel(ctx, abi.RequestPatch{}).End() }
	for name, tc := range map[string]struct {
		wraps    []wrap
		fails    error
		received string
		want     string
		source   string
		err      string
	}{
		"every piece is changed":   {wraps: []wrap{each(strings.ToUpper)}, received: "ABC", want: "ABC", source: "w1"},
		"every piece is handed on": {wraps: []wrap{each(same)}, received: "abc", want: "abc", source: "model"},
		"something before and behind": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			if err := c.Send(ctx, textChunk("<")); err != nil {
				return "", err
			}
			if _, err := c.NextModel(ctx, abi.RequestPatch{}); err != nil {
				return "", err
			}
			return "", c.Send(ctx, textChunk(">"))
		}}, received: "<abc>", want: "<abc>", source: "w1"},
		"an answer beside what was sent": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			_, err := each(strings.ToUpper)(ctx, c)
			return "quite another", err
		}}, received: "ABC", want: "quite another", source: "w1"},
		"nothing but sent": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			return "", c.Send(ctx, textChunk("no "), textChunk("model"))
		}}, received: "no model", want: "no model", source: "w1"},
		"read and withheld": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			return "", read(ctx, c)
		}}, received: "abc", want: "abc", source: "model"},
		"read by the inner one, passed by the outer": {wraps: []wrap{
			func(ctx context.Context, c *hook.Call) (string, error) {
				_, err := c.NextModel(ctx, abi.RequestPatch{})
				return "", err
			}, each(strings.ToUpper)}, received: "ABC", want: "ABC", source: "w2"},
		"read by both": {wraps: []wrap{each(func(s string) string { return "[" + s + "]" }), each(strings.ToUpper)}, received: "[A][B][C]", want: "[A][B][C]", source: "w1"},
		"read by the outer one, answered by the inner": {
			wraps: []wrap{each(strings.ToUpper),
				func(context.Context, *hook.Call) (string, error) { return "inner", nil }},
			received: "INNER",
			want:     "INNER",
			source:   "w1",
		},
		"left in the middle": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			for chunk := range c.StreamModel(ctx, abi.RequestPatch{}).Chunks() {
				return "", c.Send(ctx, chunk)
			}
			return "", nil
		}}, received: "a", want: "a", source: "w1"},
		"left in the middle with nothing": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			for range c.StreamModel(ctx, abi.RequestPatch{}).Chunks() {
				break
			}
			return "", nil
		}}, err: "w1 closed the stream before its end"},
		"opened twice": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			for range c.StreamModel(ctx, abi.RequestPatch{}).Chunks() {
				break
			}
			return each(strings.ToUpper)(ctx, c)
		}}, received: "ABC", want: "ABC", source: "w1"},
		"closed by next": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			if err := hook.ControlOf(c).NextStream(ctx, nil); err != nil {
				return "", err
			}
			_, err := c.NextModel(ctx, abi.RequestPatch{})
			if _, closed := hook.ControlOf(c).Recv(ctx, math.MaxInt); closed == nil {
				return "recv after next must fail", nil
			}
			return "", err
		}}, received: "abc", want: "abc", source: "model"},
		"nothing behind the end": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			if err := read(ctx, c); err != nil {
				return "", err
			}
			got, err := hook.ControlOf(c).Recv(ctx, math.MaxInt)
			if err != nil || got.End != nil || got.Chunks != nil {
				return "there was more", nil
			}
			return "", nil
		}}, received: "abc", want: "abc", source: "model"},
		"the model fails, and is made up for": {fails: errors.New("broken"), wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			if _, err := each(same)(ctx, c); err == nil {
				return "no error", nil
			}
			return "", c.Send(ctx, textChunk(" … sorry"))
		}}, received: "abc … sorry", want: "abc … sorry", source: "w1"},
		"the model fails": {fails: errors.New("broken"), wraps: []wrap{each(same)}, received: "abc", err: "broken"},
		"what is wrong is refused": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			for _, chunk := range []abi.Chunk{{Kind: "smell"}, {Kind: abi.ChunkToolResult, Text: "x"}, {Kind: abi.ChunkPart}, {Kind: abi.ChunkToolCall, Index: -1}} {
				if err := c.Send(ctx, textChunk("x"), chunk); !errors.Is(err, &abi.Error{Code: abi.CodeInvalid}) {
					return "not refused", nil
				}
			}
			_, err := hook.ControlOf(c).Recv(ctx, math.MaxInt)
			if !errors.Is(err, &abi.Error{Code: abi.CodeInvalid}) {
				return "recv without a stream", nil
			}
			return "fine", nil
		}}, received: "fine", want: "fine", source: "w1"},
		"amplified beyond the limit": {wraps: []wrap{func(ctx context.Context, c *hook.Call) (string, error) {
			huge := textChunk(strings.Repeat("x", 1<<20))
			var err error
			n := 0
			for ; err == nil && n < 100; n++ {
				err = c.Send(ctx, huge)
			}
			if n != 16 || !errors.Is(err, &abi.Error{Code: abi.CodeLimit}) {
				return "not bounded", nil
			}
			return "bounded", nil
		}}, received: strings.Repeat("x", 15<<20), want: "bounded", source: "w1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{lines: []string{"a", "b", "c"}, fails: tc.fails}
			var entries []hook.Entry
			for i, w := range tc.wraps {
				entries = append(entries, hook.Entry{Name: "w" + string(rune('1'+i)), Middleware: w.native()})
			}
			res, source, err := h.play(t.Context(), h.open(t, entries...))
			require.Equal(t, tc.received, h.text())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Zero(t, h.finals, "a message that failed does not end")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, res.Message.Content.String())
			require.Equal(t, tc.source, source)
			require.Equal(t, 1, h.finals)
		})
	}
}

// TestStreamOfAWholeAnswer checks that a wrapper can read and send chunks even if the call is not
// streamed.
func TestStreamOfAWholeAnswer(t *testing.T) {
	t.Parallel()
	h := &harness{lines: []string{"a", "b", "c"}, whole: true}
	batches := 0
	count := wrap(func(ctx context.Context, c *hook.Call) (string, error) {
		s := c.StreamModel(ctx, abi.RequestPatch{})
		for batch := range s.Batches() {
			batches++
			for _, chunk := range batch {
				if err := c.Send(ctx, textChunk(strings.ToUpper(chunk.Text))); err != nil {
					return "", err
				}
			}
		}
		require.Equal(t, "abc", s.Reply().Message.Content.String())
		return "", s.End()
	})
	res, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", Middleware: count.native()}))
	require.NoError(t, err)
	require.Equal(t, 1, batches)
	require.Equal(t, "ABC", res.Message.Content.String())
	require.Equal(t, 7, int(res.Usage.TotalTokens), "what chunks cannot say is the model's")
	require.Empty(t, h.received)
}

// TestSendOfAStream checks that a wrapper can change the chunks of an answer as they arrive.
func TestSendOfAStream(t *testing.T) {
	t.Parallel()
	h := &harness{lines: []string{"a", "b"}}
	n := (*inproc.Middleware)(native.WithModelStream(
		func(_ context.Context, _ abi.Request, answer *hook.Stream[abi.Response], send func(...abi.Chunk) error) error {
			for chunk := range answer.Chunks() {
				if err := send(textChunk(strings.ToUpper(chunk.Text))); err != nil {
					return err
				}
			}
			return answer.End()
		},
	))
	res, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", Middleware: n}))
	require.NoError(t, err)
	require.Equal(t, "AB", res.Message.Content.String())
}

func TestHoldStreamHoldsWhatIsSent(t *testing.T) {
	t.Parallel()
	h := &harness{lines: []string{"a", "b"}}
	n := wrap(func(ctx context.Context, c *hook.Call) (string, error) {
		_, err := each(strings.ToUpper)(ctx, c)
		require.False(t, h.delivered())
		return "", err
	}).native()
	n.Description.HoldStream = true
	res, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", Middleware: n}))
	require.NoError(t, err)
	require.Equal(t, "AB", res.Message.Content.String())
	require.Equal(t, "AB", h.text())
	require.Len(t, h.received, 1)
}

// TestEndingsPassAStream checks that a wrapper that reads a stream cannot catch an error that ends
// the run.
func TestEndingsPassAStream(t *testing.T) {
	t.Parallel()
	stop := &inproc.Middleware{
		WrapModel: func(context.Context, *hook.Call, *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			return &abi.WrapModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough"}}}, nil
		},
	}
	unwound := make(chan struct{})
	last := &inproc.Middleware{
		WrapModel: func(context.Context, *hook.Call, *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			defer close(unwound)
			return &abi.WrapModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough"}}}, nil
		},
	}
	for name, tc := range map[string]struct {
		outer wrap
		inner *inproc.Middleware
	}{
		"read": {func(ctx context.Context, c *hook.Call) (string, error) {
			_ = c.StreamModel(ctx, abi.RequestPatch{}).End()
			return "caught", nil
		}, stop},
		"not read": {func(ctx context.Context, c *hook.Call) (string, error) {
			err := hook.ControlOf(c).NextStream(ctx, nil)
			<-unwound
			return "caught", err
		}, last},
		"sent into": {func(ctx context.Context, c *hook.Call) (string, error) {
			_ = c.StreamModel(ctx, abi.RequestPatch{}).End()
			return "", c.Send(ctx, textChunk("more"))
		}, stop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{}
			_, _, err := h.play(
				t.Context(),
				h.open(
					t,
					hook.Entry{Name: "outer", Middleware: tc.outer.native()},
					hook.Entry{Name: "inner", Middleware: tc.inner},
				),
			)
			var stopped *ending.StoppedError
			require.ErrorAs(t, err, &stopped)
			require.Equal(t, "inner", stopped.Entry)
		})
	}
}

// TestOnChunkRefusesWhatIsSent checks that a wrapper cannot bypass an on_chunk hook that rejected
// some of its chunks.
func TestOnChunkRefusesWhatIsSent(t *testing.T) {
	t.Parallel()
	censor := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			for _, c := range in.Chunks {
				if strings.Contains(c.Text, "bad") {
					return nil, &abi.Error{Code: abi.CodeDenied, Message: "not that"}
				}
			}
			return nil, nil
		},
	}
	for name, tc := range map[string]struct {
		answer, received, want, err string
	}{
		"swallowed":         {received: "good ", err: "not that"},
		"answered anew":     {answer: "fine", received: "good ", want: "fine"},
		"answered the same": {answer: "bad", received: "good ", err: "not that"},
	} {
		for _, ring := range []hook.Ring{hook.Tenant, hook.Outer} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := &harness{}
				w := wrap(func(ctx context.Context, c *hook.Call) (string, error) {
					for _, s := range []string{"good ", "bad ", "better"} {
						_ = c.Send(ctx, textChunk(s))
					}
					return tc.answer, nil
				})
				res, _, err := h.play(
					t.Context(),
					h.open(
						t,
						hook.Entry{Name: "censor", Ring: ring, Middleware: censor},
						hook.Entry{Name: "w", Ring: hook.Tenant, Middleware: w.native()},
					),
				)
				require.Equal(t, tc.received, h.text())
				if tc.err != "" {
					require.EqualError(t, err, tc.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, tc.want, res.Message.Content.String())
			})
		}
	}
}

// TestStreamFaults checks a wrapper that faults while it reads a stream. The fault ends the run or,
// if the entry's faults are skipped, the model's answer remains. The model is called at most once.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	at := func(n int) wrap {
		return func(ctx context.Context, c *hook.Call) (string, error) {
			if n == 0 {
				panic("at once")
			}
			for chunk := range c.StreamModel(ctx, abi.RequestPatch{}).Chunks() {
				if n--; n == 0 {
					panic("at a chunk")
				}
				if err := c.Send(ctx, textChunk(strings.ToUpper(chunk.Text))); err != nil {
					return "", err
				}
			}
			panic("at the end")
		}
	}
	for name, tc := range map[string]struct {
		at       int
		received string
	}{
		"before":        {0, "abc"},
		"at the first":  {1, "abc"},
		"at the second": {2, "A"},
		"behind":        {99, "ABC"},
	} {
		for _, f := range []hook.OnFault{hook.Fail, hook.Skip} {
			t.Run(name+" "+string(f), func(t *testing.T) {
				t.Parallel()
				h := &harness{lines: []string{"a", "b", "c"}}
				res, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", OnFault: f, Middleware: at(tc.at).native()}))
				require.LessOrEqual(t, h.calls, 1, "nothing is called twice")
				if f == hook.Fail {
					var fault *ending.FaultError
					require.ErrorAs(t, err, &fault)
					if tc.at <= 1 {
						require.Empty(t, h.text())
					} else {
						require.Equal(t, tc.received, h.text())
					}
					return
				}
				require.NoError(t, err)
				require.Equal(t, tc.received, h.text(), "what was delivered stands")
				require.Equal(t, "abc", res.Message.Content.String(), "the last reply stands")
			})
		}
	}
}

// TestStreamIsClosed checks that the wrapped call is canceled with ErrClosed when its reader
// returns before the end of the stream.
func TestStreamIsClosed(t *testing.T) {
	t.Parallel()
	h := &harness{lines: strings.Split(strings.Repeat("x", 10*pipe.MaxWaiting), "")}
	first := wrap(func(ctx context.Context, c *hook.Call) (string, error) {
		for chunk := range c.StreamModel(ctx, abi.RequestPatch{}).Chunks() {
			return "", c.Send(ctx, chunk)
		}
		return "", nil
	})
	res, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", Middleware: first.native()}))
	require.NoError(t, err)
	require.Equal(t, "x", res.Message.Content.String())
	require.ErrorIs(t, h.canceled, exchange.ErrClosed)
}

// TestStreamWaits checks backpressure: a caller that does not read slows the wrapper, and the
// wrapper slows the model.
func TestStreamWaits(t *testing.T) {
	t.Parallel()
	for name, wraps := range map[string][]wrap{"one": {each(same)}, "three": {each(same), each(strings.ToUpper), each(same)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const lines = 100 * pipe.MaxWaiting
				ctx, cancel := context.WithCancelCause(t.Context())
				said := 0
				h := &harness{listen: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
				var entries []hook.Entry
				for i, w := range wraps {
					entries = append(entries, hook.Entry{Name: "w" + string(rune('1'+i)), Middleware: w.native()})
				}
				r := h.open(t, entries...)
				ended := make(chan error)
				go func() {
					_, _, err := r.CallModel(
						ctx,
						ModelCall{
							Request:   ModelRequest{Messages: conversation(), Stream: true},
							State:     conversation(),
							Delivered: h.delivered,
							Out:       h.out,
							Generate: func(ctx context.Context, _ ModelRequest, out pipe.Sink) (*abi.Response, error) {
								for ; said < lines; said++ {
									if err := out(ctx, []abi.Chunk{textChunk("x")}, false); err != nil {
										return nil, err
									}
								}
								return &abi.Response{Message: abi.Assistant("x")}, nil
							},
						},
					)
					ended <- err
				}()
				synctest.Wait()
				require.LessOrEqual(
					t,
					said,
					2*len(wraps)*(pipe.MaxWaiting+1),
					"a model that nobody listens to says no more than may wait",
				)
				require.GreaterOrEqual(t, said, pipe.MaxWaiting)
				gone := errors.New("the caller went away")
				cancel(gone)
				require.ErrorIs(t, <-ended, gone)
			})
		})
	}
}

// TestInterruptOfAStream checks that a wrapper may pause the run before a part of the answer is
// delivered, but not after.
func TestInterruptOfAStream(t *testing.T) {
	t.Parallel()
	for _, sends := range []bool{false, true} {
		h := &harness{lines: []string{"a"}}
		n := &inproc.Middleware{
			WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
				s := c.StreamModel(ctx, abi.RequestPatch{})
				for chunk := range s.Chunks() {
					if sends {
						require.NoError(t, c.Send(ctx, chunk))
					}
				}
				return &abi.WrapModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "go on?"}}}, s.End()
			},
		}
		_, _, err := h.play(t.Context(), h.open(t, hook.Entry{Name: "w", Middleware: n}))
		if sends {
			require.ErrorContains(t, err, "after a part of the answer was delivered")
			continue
		}
		var paused *ending.InterruptedError
		require.ErrorAs(t, err, &paused)
	}
}

// TestSecondAttempt checks that a second next is streamed unless chunks of the first were
// delivered, and that the chunks of both do not mix.
func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	retry := wrap(func(ctx context.Context, c *hook.Call) (string, error) {
		if _, err := c.NextModel(ctx, abi.RequestPatch{}); err == nil {
			return "it did not fail", nil
		}
		_, err := c.NextModel(ctx, abi.RequestPatch{})
		return "", err
	})
	holds := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			if in.Final {
				return nil, nil
			}
			return &abi.OnChunkAnswer{Chunks: []abi.Chunk{}}, nil
		},
	}
	for name, tc := range map[string]struct {
		outer    *inproc.Middleware
		received string
	}{
		"heard":     {&inproc.Middleware{OnChunk: func(context.Context, *hook.Call, *abi.OnChunkInput) (*abi.OnChunkAnswer, error) { return nil, nil }}, "bad"},
		"not heard": {holds, ""},
		"read":      {each(same).native(), "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{}
			r := h.open(
				t,
				hook.Entry{Name: "outer", Ring: hook.Outer, Middleware: tc.outer},
				hook.Entry{Name: "retry", Ring: hook.Tenant, Middleware: retry.native()},
			)
			n := 0
			res, _, err := r.CallModel(
				t.Context(),
				ModelCall{
					Request:   ModelRequest{Messages: conversation(), Stream: true},
					State:     conversation(),
					Delivered: h.delivered,
					Out:       h.out,
					Generate: func(ctx context.Context, q ModelRequest, out pipe.Sink) (*abi.Response, error) {
						if n++; n == 1 {
							require.NoError(t, out(ctx, []abi.Chunk{textChunk("bad")}, false))
							return nil, errors.New("broken")
						}
						require.Equal(t, name == "not heard", out != nil)
						if out != nil {
							require.NoError(t, out(ctx, []abi.Chunk{textChunk("good")}, true))
						}
						return &abi.Response{Message: abi.Assistant("good")}, nil
					},
				},
			)
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.Equal(t, tc.received, h.text())
			want := map[string]string{"heard": "good", "not heard": "", "read": "bad"}[name]
			require.Equal(t, want, res.Message.Content.String())
		})
	}
}
