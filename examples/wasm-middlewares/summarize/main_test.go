package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// says is a model with scripted replies that records its calls.
type says struct {
	replies []any // strings and errors; the last one repeats
	asked   []middlewaretest.ModelCall
}

func (s *says) answer(call middlewaretest.ModelCall) (*abi.Response, error) {
	reply := s.replies[min(len(s.asked), len(s.replies)-1)]
	s.asked = append(s.asked, call)
	if err, ok := reply.(error); ok {
		return nil, err
	}
	return &abi.Response{Message: abi.Assistant(reply.(string))}, nil
}

func newHost(t *testing.T, config map[string]any, replies ...any) (*middlewaretest.Host, *says) {
	t.Helper()
	h := middlewaretest.New(middleware.Options{Name: "summarize"}, newSummarizer())
	require.NoError(t, h.Configure(config))
	model := &says{replies: replies}
	h.OwnModel = model.answer
	return h, model
}

func step(t *testing.T, h *middlewaretest.Host) []abi.Message {
	t.Helper()
	_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	return h.Messages()
}

// long returns a string of about n tokens.
func long(n int) string { return strings.Repeat("word", n) }

// messages returns n messages, alternating between user and assistant.
func messages(n, size int) []abi.Message {
	var out []abi.Message
	for i := range n {
		text := fmt.Sprintf("m%d %s", i, long(size))
		if i%2 == 0 {
			out = append(out, abi.User(text))
		} else {
			out = append(out, abi.Assistant(text))
		}
	}
	return out
}

// TestTriggers checks that only the configured thresholds apply or, if there are none, the default.
func TestTriggers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config   map[string]any
		messages []abi.Message
		fires    bool
	}{
		"messages, fewer and huge":     {map[string]any{"messages": 10}, messages(9, 100_000), false},
		"messages, as many":            {map[string]any{"messages": 10}, messages(10, 1000), false},
		"messages, more":               {map[string]any{"messages": 10}, messages(11, 1000), true},
		"tokens, many short messages":  {map[string]any{"tokens": 100_000}, messages(500, 1), false},
		"tokens, few long messages":    {map[string]any{"tokens": 100_000}, messages(12, 10_000), true},
		"both, one of them":            {map[string]any{"messages": 100, "tokens": 100_000}, messages(12, 10_000), true},
		"both, none":                   {map[string]any{"messages": 100, "tokens": 100_000}, messages(20, 10), false},
		"neither set, below":           {nil, messages(9, 10_000), false},
		"neither set, above":           {nil, messages(10, 10_000), true},
		"nothing but the last message": {map[string]any{"tokens": 1000}, messages(1, 5000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, model := newHost(t, c.config, "in short")
			h.SetMessages(c.messages...)
			got := step(t, h)
			require.Equal(t, c.fires, len(model.asked) > 0)
			require.Equal(t, c.fires, len(got) < len(c.messages))
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	h, model := newHost(t, map[string]any{"messages": 6, "keep": 2}, "in short")
	history := append([]abi.Message{abi.System("be kind")}, messages(7, 100)...)
	h.SetMessages(history...)
	before := h.Messages()
	got := step(t, h)
	require.Len(t, got, 4)
	require.Equal(t, before[0], got[0])
	require.Equal(t, before[6:], got[2:], "what stays keeps its ids")
	require.Equal(t, abi.RoleUser, got[1].Role)
	require.Equal(
		t,
		"The older part of this conversation was left out, since it had become too long. These are the notes on it:\n\nin short\n\n"+
			"What the user wrote in it, word for word:\n- m0 "+long(
			100,
		)+"\n- m2 "+long(
			100,
		)+"\n- m4 "+long(
			100,
		)+
			"\n\nGo on from what follows. Do not answer again what was answered.",
		got[1].Content.String(),
	)

	require.Len(t, model.asked, 1)
	asked := model.asked[0]
	require.Len(t, asked.Messages, 2)
	require.Equal(t, abi.RoleSystem, asked.Messages[0].Role)
	require.Contains(t, asked.Messages[0].Content.String(), "at most 2000 words")
	require.Contains(t, asked.Messages[1].Content.String(), "[user] m0 ")
	require.Contains(t, asked.Messages[1].Content.String(), "[assistant] m3 ")
	require.NotContains(t, asked.Messages[1].Content.String(), "m5 ")
	require.Equal(t, "summarized", h.Events[0].Name)
	require.JSONEq(
		t,
		`{"before":0,"messages":5,"model_calls":1,"summary_tokens":365,"tokens":525}`,
		string(h.Events[0].Data),
	)
}

// TestSummaryOfASummary checks that the model receives the first summary for the second, and that
// the user's messages are carried over.
func TestSummaryOfASummary(t *testing.T) {
	t.Parallel()
	h, model := newHost(t, map[string]any{"messages": 6, "keep": 2}, "first notes", "second notes")
	h.SetMessages(messages(7, 100)...)
	got := step(t, h)
	h.SetMessages(append(got, messages(5, 50)...)...)
	require.NoError(t, h.Wipe())
	got = step(t, h)
	require.Len(t, model.asked, 2)
	asked := model.asked[1].Messages[1].Content.String()
	require.True(
		t,
		strings.HasPrefix(
			asked,
			"The notes so far, which yours replace:\n\nfirst notes\n\nThe conversation:\n\n[assistant] m5",
		),
		asked,
	)
	text := got[0].Content.String()
	require.Contains(t, text, "second notes")
	require.NotContains(t, text, "first notes")
	for _, want := range []string{"\n- m0 ", "\n- m2 ", "\n- m4 ", "\n- m6 "} {
		require.Contains(t, text, want)
	}
	require.NotContains(
		t,
		text,
		"left out, since it had become too long\n- ",
		"the earlier summary is nothing that the user wrote",
	)
}

func TestUserMessages(t *testing.T) {
	t.Parallel()
	h, _ := newHost(t, map[string]any{"messages": 5, "keep": 1, "user_tokens": 280}, "in short")
	reminder := abi.User("said by a module")
	reminder.Origin = "module:other"
	h.SetMessages(abi.User("oldest "+long(70)), abi.User("long "+long(2000)), reminder,
		abi.User("two\nlines"), abi.User("newer "+long(70)), abi.User("newest "+long(70)), abi.User("now"))
	text := step(t, h)[0].Content.String()
	require.Contains(t, text, "(1 earlier messages are not here)")
	require.Contains(t, text, "\n- two\n  lines")
	require.Contains(t, text, "characters left out")
	require.NotContains(t, text, "oldest")
	require.NotContains(t, text, "said by a module")
}

// TestNothingIsTornApart checks, for random conversations, that a call and its results stay
// together and that the last message remains.
func TestNothingIsTornApart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		history := randomConversation(r)
		config := map[string]any{
			"keep":       1 + r.IntN(5),
			"tokens":     1000 + r.IntN(3000),
			"window":     8000,
			"on_failure": []string{"keep", "cut"}[r.IntN(2)],
		}
		if r.IntN(2) == 0 {
			config["messages"] = 6 + r.IntN(20)
		}
		h, _ := newHost(t, config, []any{"in short", errors.New("overloaded")}[r.IntN(2)])
		h.SetMessages(history...)
		before := h.Messages()
		got := step(t, h)
		require.Equal(t, before[len(before)-1], got[len(got)-1], "seed %d", seed)
		require.LessOrEqual(t, tokens.Messages(got), tokens.Messages(before), "seed %d", seed)
		open := map[string]bool{}
		for i, m := range got {
			if m.Role == abi.RoleTool {
				require.True(t, open[m.ToolCallID], "seed %d, message %d: the result of a call that is gone", seed, i)
				delete(open, m.ToolCallID)
				continue
			}
			require.Empty(t, open, "seed %d, message %d: calls without their results", seed, i)
			for _, c := range m.ToolCalls {
				open[c.ID] = true
			}
		}
		require.Empty(t, open)
	}
}

func randomConversation(r *rand.Rand) []abi.Message {
	var out []abi.Message
	for range r.IntN(3) {
		out = append(out, abi.System("rules"))
	}
	for i := range 1 + r.IntN(30) {
		switch r.IntN(3) {
		case 0:
			out = append(out, abi.User(long(r.IntN(200))))
		case 1:
			out = append(out, abi.Assistant(long(r.IntN(200))))
		default:
			m, results := abi.Message{Role: abi.RoleAssistant}, []abi.Message(nil)
			for j := range 1 + r.IntN(4) {
				id := fmt.Sprintf("c%d-%d", i, j)
				m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(id, "t", "{}"))
				results = append(results, abi.ToolMessage(id, "t", abi.Text(long(r.IntN(500)))))
			}
			out = append(append(out, m), results...)
		}
	}
	return out
}

// TestMeasures checks that the model's own token count takes precedence, and that a step reads only
// new messages.
func TestMeasures(t *testing.T) {
	t.Parallel()
	h, model := newHost(t, map[string]any{"tokens": 10_000}, "in short")
	h.SetMessages(messages(20, 10)...)
	before := len(step(t, h))
	require.Empty(t, model.asked)
	usage := &abi.Usage{PromptTokens: 9900, CompletionTokens: 50, TotalTokens: 9950}
	_, err := h.AfterModel(abi.AfterModelInput{Response: &abi.Response{Message: abi.Assistant("hm"), Usage: usage}})
	require.NoError(t, err)
	require.NoError(t, h.Wipe())
	pulled := h.Pulled
	h.SetMessages(append(h.Messages(), abi.Assistant("hm"), abi.User("x"))...)
	step(t, h)
	require.Empty(t, model.asked, "9950 and a short message")
	require.Equal(t, 1, h.Pulled-pulled)

	h.SetMessages(append(h.Messages(), abi.User(long(100)))...)
	require.Less(t, len(step(t, h)), before)
	require.Len(t, model.asked, 1)
	step(t, h)
	require.Len(t, model.asked, 1, "what was summarized is counted anew")
}

// TestLargerThanTheWindow checks that a part larger than the window is summarized in pieces that
// fit.
func TestLargerThanTheWindow(t *testing.T) {
	t.Parallel()
	const window = 4000
	h, model := newHost(
		t,
		map[string]any{"window": window, "messages": 8, "keep": 2},
		"notes 1",
		"notes 2",
		"notes 3",
		"notes 4",
		"notes",
	)
	h.SetMessages(
		append(messages(19, 500), abi.ToolMessage("c", "t", abi.Text(long(9000))), abi.User("a"), abi.User("b"))...)
	got := step(t, h)
	require.Len(t, got, 3)
	require.Greater(t, len(model.asked), 3)
	for i, call := range model.asked {
		require.LessOrEqual(t, tokens.Messages(call.Messages), window)
		if i > 0 {
			require.Contains(t, call.Messages[1].Content.String(), fmt.Sprintf("notes %d\n", i)[:5])
		}
	}

	h, model = newHost(t, map[string]any{"window": window, "messages": 8, "keep": 2}, "notes")
	h.SetMessages(messages(200, 500)...)
	require.Len(t, step(t, h), 200)
	require.Empty(t, model.asked, "too many pieces")
	require.Contains(t, string(h.Events[0].Data), "it would take")
}

func TestRetries(t *testing.T) {
	t.Parallel()
	overloaded, denied := errors.New("overloaded"), &abi.Error{Code: abi.CodeDenied, Message: "no"}
	for name, c := range map[string]struct {
		config  map[string]any
		replies []any
		models  []string
		works   bool
	}{
		"at once":         {nil, []any{"ok"}, []string{""}, true},
		"the second time": {nil, []any{overloaded, "ok"}, []string{"", ""}, true},
		"an empty one":    {nil, []any{" \n", "ok"}, []string{"", ""}, true},
		"never":           {nil, []any{overloaded}, []string{"", "", ""}, false},
		"not allowed":     {nil, []any{denied}, []string{""}, false},
		"another model": {
			map[string]any{"models": []string{"a", "b"}, "retries": 1},
			[]any{overloaded, overloaded, "ok"},
			[]string{"a", "a", "b"},
			true,
		},
		"another, at once": {
			map[string]any{"models": []string{"a", "b"}}, []any{denied, "ok"}, []string{"a", "b"}, true,
		},
		"no retries, no luck":   {map[string]any{"retries": 0}, []any{overloaded}, []string{""}, false},
		"no shorter than it is": {nil, []any{long(5000)}, []string{""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := map[string]any{"messages": 8, "user_tokens": 100}
			for k, v := range c.config {
				config[k] = v
			}
			h, model := newHost(t, config, c.replies...)
			h.SetMessages(messages(10, 50)...)
			got := step(t, h)
			var models []string
			for _, call := range model.asked {
				models = append(models, call.Model)
			}
			require.Equal(t, c.models, models)
			if c.works {
				require.Equal(t, "summarized", h.Events[0].Name)
				require.Len(t, got, 7)
			} else {
				require.Equal(t, "summary_failed", h.Events[0].Name)
				require.Len(t, got, 10)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	t.Run("keep", func(t *testing.T) {
		h, model := newHost(t, map[string]any{"messages": 8, "retries": 0}, errors.New("overloaded"), "ok")
		h.SetMessages(messages(10, 50)...)
		for n := 10; n < 15; n++ {
			require.Len(t, step(t, h), n)
			require.Len(t, model.asked, 1, "not at once again")
			h.SetMessages(append(h.Messages(), abi.User("more"))...)
		}
		require.Len(t, step(t, h), 7)
	})
	t.Run("cut", func(t *testing.T) {
		h, _ := newHost(t, map[string]any{"messages": 8, "on_failure": "cut"}, "notes", errors.New("overloaded"))
		h.SetMessages(messages(10, 50)...)
		step(t, h)
		h.SetMessages(append(h.Messages(), messages(5, 50)...)...)
		text := step(t, h)[0].Content.String()
		require.Contains(t, text, "There are no notes on all of it. These are on its begin:\n\nnotes")
		require.Contains(t, text, "\n- m0 ")
	})
	t.Run("cut at once", func(t *testing.T) {
		h, _ := newHost(t, map[string]any{"messages": 8, "on_failure": "cut"}, errors.New("overloaded"))
		h.SetMessages(messages(10, 50)...)
		require.Contains(t, step(t, h)[0].Content.String(), "There are no notes on it.")
	})
	t.Run("fail", func(t *testing.T) {
		h, _ := newHost(t, map[string]any{"messages": 8, "on_failure": "fail"}, errors.New("overloaded"))
		h.SetMessages(messages(10, 50)...)
		_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
		require.EqualError(t, err, "summarize the conversation: overloaded")
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		"messages and tokens":                     {"messages": -1},
		"window: 100 tokens":                      {"window": 100},
		"tokens: 10 are too few":                  {"tokens": 10},
		"tokens: 200000 is above the window":      {"tokens": 200_000},
		"keep: want at least 1":                   {"keep": 0},
		"keep: 6 of 5 messages leaves":            {"messages": 5},
		"summary_tokens is at least 50":           {"summary_tokens": 1},
		"retries: 6 is not":                       {"retries": 6},
		`on_failure: "stop" is not one of keep, `: {"on_failure": "stop"},
	} {
		h := middlewaretest.New(middleware.Options{}, newSummarizer())
		require.ErrorContains(t, h.Configure(config), "config: "+want)
	}
}
