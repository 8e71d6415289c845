package persist_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

const (
	secret = " by amy@example.org"
	hidden = " by [EMAIL]"
)

func hide(c abi.Content) abi.Content { return abi.Text(strings.ReplaceAll(c.String(), secret, hidden)) }

// hideMessages returns a patch that hides the secret in the messages of the hook's list.
func hideMessages(c *hook.Call) (p abi.ListPatch) {
	for i := range c.List(0).Len() {
		if m := c.List(0).At(i); strings.Contains(m.Content.String(), secret) {
			m.Content = hide(m.Content)
			p.Splice = append(p.Splice, abi.Splice{At: i, Remove: 1, Insert: []abi.Message{m}})
		}
	}
	return p
}

func hideResult(_ context.Context, _ *hook.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
	if in.Result == nil {
		return nil, nil
	}
	res := *in.Result
	res.Content = hide(res.Content)
	return &abi.AfterToolAnswer{Result: &res}, nil
}

func hideResponse(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
	if in.Response == nil {
		return nil, nil
	}
	res := *in.Response
	res.Message.Content = hide(res.Message.Content)
	return &abi.AfterModelAnswer{Response: &res}, nil
}

func hideWrapped(ctx context.Context, c *hook.Call, _ *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
	res, err := c.NextTool(ctx, abi.CallPatch{})
	if res != nil {
		out := *res
		out.Content = hide(out.Content)
		res = &out
	}
	return &abi.WrapToolCallAnswer{Result: res}, err
}

func hideBefore(
	_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
) (*abi.BeforeModelRewriteStateAnswer, error) {
	return &abi.BeforeModelRewriteStateAnswer{Messages: hideMessages(c)}, nil
}

func hideAfter(
	_ context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
) (*abi.AfterModelRewriteStateAnswer, error) {
	return &abi.AfterModelRewriteStateAnswer{Messages: hideMessages(c)}, nil
}

// hides returns a middleware that removes the secret from chunks, tool results and messages before
// they appear in events.
func hides() *inproc.Middleware {
	return &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			out := slices.Clone(in.Chunks)
			for i := range out {
				out[i].Text = strings.ReplaceAll(out[i].Text, secret, hidden)
			}
			return &abi.OnChunkAnswer{Chunks: out}, nil
		},
		AfterModelRewriteState: hideAfter,
		AfterTool:              hideResult,
	}
}

// logOfRun returns the history and the log of run "r", which must have finished.
func logOfRun(t *testing.T, j journal.Journal) (*runlog.History, string) {
	t.Helper()
	stored, err := j.Load(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, journal.StatusFinished, stored.Status)
	h, err := runlog.ReadHistory(stored)
	require.NoError(t, err)
	return h, string(bytes.Join(stored.Log, nil))
}

func requireNone(t *testing.T, text string) {
	t.Helper()
	if i := strings.Index(text, secret); i >= 0 {
		require.Fail(t, "the text was not erased", "%s", text[max(0, i-300):min(len(text), i+100)])
	}
}

// TestRemovedTextIsErasedAtEveryDeath checks that a run completes if its process ends at any write.
// Neither the log nor the events may contain the secret that a middleware removed. The run has
// parallel tool calls and a pause. It is the outermost run or that of a sub-agent.
func TestRemovedTextIsErasedAtEveryDeath(t *testing.T) {
	t.Parallel()
	for depth, requireEnd := range []func(*testing.T, *world, *taker){requireComplete, requireChild, requireChild} {
		lives := func(t *testing.T, at int64, after bool) (writes int64) {
			s, w := openStore(t), newWorld(depth)
			w.secret = secret
			c, writes := w.live(t, s, at, after)
			requireEnd(t, w, c)
			h, log := logOfRun(t, s)
			requireNone(t, log)
			events, err := json.Marshal(c.all)
			require.NoError(t, err)
			requireNone(t, string(events))
			if depth == 0 {
				for _, text := range []string{"let me see", "look done", "all done"} {
					require.Contains(t, log, text+hidden)
				}
			}
			require.Equal(t, "hi", h.State.Messages.At(0).Content.String())
			return writes
		}
		writes := lives(t, 0, false)
		for at := int64(1); at <= writes+2; at += everyWrite() {
			for _, after := range []bool{false, true} {
				t.Run(
					fmt.Sprint(depth, " deep, ", at, map[bool]string{true: " after", false: " before"}[after]),
					func(t *testing.T) {
						t.Parallel()
						lives(t, at, after)
					},
				)
			}
		}
	}
}

// TestAnswersAreErased checks which hooks cause recorded answers to be erased. The answers of a
// step in which nothing was removed must remain.
func TestAnswersAreErased(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hooks     inproc.Middleware
		originals bool
		erased    bool
	}{
		"nothing removed":            {hooks: inproc.Middleware{AfterTools: countsHooks().AfterTools}},
		"wrap_tool_call":             {hooks: inproc.Middleware{WrapToolCall: hideWrapped}, erased: true},
		"after_tool":                 {hooks: inproc.Middleware{AfterTool: hideResult}, erased: true},
		"after_model":                {hooks: inproc.Middleware{AfterModel: hideResponse}, erased: true},
		"before_model_rewrite_state": {hooks: inproc.Middleware{BeforeModelRewriteState: hideBefore}, erased: true},
		"a module's tool":            {hooks: addsLook(nil)},
		"after_tool of such a tool":  {hooks: addsLook(hideResult), erased: true},
		"originals":                  {hooks: inproc.Middleware{AfterTool: hideResult}, originals: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := openStore(t), newWorld(0)
			if name == "after_model" {
				w.secret = secret
			}
			look := tool.Func(abi.Tool{Name: "look"}, func(context.Context, abi.Call) (*abi.Result, error) {
				return abi.TextResult("found" + map[bool]string{true: secret}[name != "after_model"]), nil
			})
			o := &agent.Options{
				Model: w, Chain: with(t, nativeEntry("m", &tc.hooks)),
				Tools:   []tool.Tool{newWorld(0).tool("asked", false), newWorld(0).tool("pay", false)},
				Journal: &journal.Options{Journal: s, Originals: tc.originals},
			}
			if tc.hooks.CallTool == nil {
				o.Tools = append(o.Tools, look)
			}
			a, err := agent.New(o)
			require.NoError(t, err)
			_, err = eventsOf(t, a, agent.Input{})
			require.NoError(t, err)
			h, log := logOfRun(t, s)
			erased, kept := 0, 0
			for _, p := range h.Phases {
				for _, d := range p.Calls {
					switch {
					case d.Erased:
						require.Nil(t, d.Answer)
						require.True(t, d.Done)
						erased++
					case d.What == "model" || d.What == "tool":
						require.NotNil(t, d.Answer)
						kept++
					}
				}
			}
			if !tc.erased {
				require.Zero(t, erased)
				require.Contains(t, log, secret)
				require.NotContains(t, log, `"erased"`)
				return
			}
			requireNone(t, log)
			require.Positive(t, erased)
			if name != "after_model" {
				require.Equal(t, 1, kept, "the answer of the step in which nothing was removed")
			}
		})
	}
}

// addsLook returns a middleware that adds the tool "look", whose result contains the secret. after
// is its after_tool hook, or nil.
func addsLook(
	after func(context.Context, *hook.Call, *abi.AfterToolInput) (*abi.AfterToolAnswer, error),
) inproc.Middleware {
	return inproc.Middleware{
		BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "look"}}}}, nil
		},
		CallTool: func(context.Context, *hook.Call, *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			return &abi.CallToolAnswer{Result: abi.TextResult("found" + secret)}, nil
		},
		AfterTool: after,
	}
}

// TestPausedRunIsErased checks that the log of a run that waits for an answer has only the recorded
// answers of the phase in which the run waits.
func TestPausedRunIsErased(t *testing.T) {
	t.Parallel()
	s, w := openStore(t), newWorld(0)
	w.secret = secret
	for range w.agent(t, s).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}) {
		continue
	}
	stored, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, journal.StatusPaused, stored.Status)
	log := string(bytes.Join(stored.Log, nil))
	require.NotContains(t, log, "let me see"+secret)
	require.Contains(t, log, "look done"+secret)
}

// TestRemovalSurvivesADeath checks that a model's answer from which after_model removed text is
// erased although the process ends at a later write. The run is persisted right after the removal,
// because the next hook calls a tool.
func TestRemovalSurvivesADeath(t *testing.T) {
	t.Parallel()
	looks := func(
		ctx context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
	) (*abi.AfterModelRewriteStateAnswer, error) {
		_, err := c.Tool(ctx, "look", "{}")
		return nil, err
	}
	lives := func(t *testing.T, at int64, after bool) (writes int64) {
		s, w := openStore(t), newWorld(0)
		w.secret = secret
		m := &crashingJournal{Journal: s, at: at, after: after}
		on := func(j journal.Journal) *agent.Agent {
			plain := newWorld(0)
			a, err := agent.New(&agent.Options{
				Model:    w,
				Chain:    with(t, nativeEntry("m", &inproc.Middleware{AfterModel: hideResponse, AfterModelRewriteState: looks})),
				Tools:    []tool.Tool{plain.tool("pay", false), plain.tool("look", true), plain.tool("asked", false)},
				NoStream: true,
				Journal:  &journal.Options{Journal: j, Owner: t.Name(), Gone: func(string) bool { return true }},
			})
			require.NoError(t, err)
			return a
		}
		c := &taker{t: t}
		begin := func(j journal.Journal) error {
			return c.take(on(j).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}))
		}
		if err := begin(m); err != nil {
			require.ErrorIs(t, err, errDied)
			c.catchUp(s)
			switch info, err := s.Run(t.Context(), "r"); {
			case errors.Is(err, journal.ErrNoRun):
				require.NoError(t, begin(s))
			case info.Status != journal.StatusFinished:
				events, err := on(s).Continue(t.Context(), "r", nil)
				require.NoError(t, err)
				require.NoError(t, c.take(events))
			}
		}
		_, log := logOfRun(t, s)
		requireNone(t, log)
		return m.writes.Load()
	}
	writes := lives(t, 0, false)
	for at := int64(1); at <= writes; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at, map[bool]string{true: " after", false: " before"}[after]), func(t *testing.T) {
				t.Parallel()
				lives(t, at, after)
			})
		}
	}
}
