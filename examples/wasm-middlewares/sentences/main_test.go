package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

func cut(longest int, pieces ...string) []string {
	c := &cutter{longest: longest}
	var out []string
	for _, p := range pieces {
		out = append(out, c.add(p)...)
	}
	return append(out, c.rest()...)
}

func TestCut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":             {"", nil},
		"one":                 {"It rains.", []string{"It rains."}},
		"several":             {"It rains. Take a coat! Or stay in?", []string{"It rains. ", "Take a coat! ", "Or stay in?"}},
		"no end":              {"and so on", []string{"and so on"}},
		"numbers":             {"Pi is 3.14. Or so.", []string{"Pi is 3.14. ", "Or so."}},
		"several marks":       {"What?! Well… yes.", []string{"What?! ", "Well… ", "yes."}},
		"quotes":              {`"No." (Yes.) So.`, []string{`"No." `, "(Yes.) ", "So."}},
		"lines":               {"Title\n\nText. End", []string{"Title\n\n", "Text. ", "End"}},
		"without spaces":      {"好。走吧！", []string{"好。", "走吧！"}},
		"too long":            {"one two three four five", []string{"one two ", "three four", " five"}},
		"too long a word":     {"abcdefghijklmno", []string{"abcdefghij", "klmno"}},
		"too long, not Latin": {"ääääääääääää", []string{"ääääääääää", "ää"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			longest := 100
			if strings.HasPrefix(name, "too long") {
				longest = 10
			}
			require.Equal(t, tc.want, cut(longest, tc.text))
			require.Equal(t, tc.want, cut(longest, strings.Split(tc.text, "")...), "however it comes")
		})
	}
}

// FuzzCut checks that no text is lost, that no sentence is empty or exceeds the limit, and that the
// result does not depend on how the text is split into pieces.
func FuzzCut(f *testing.F) {
	f.Add("It rains. Take 3.14 coats!", 10, 3)
	f.Add("\n. .", 1, 1)
	f.Fuzz(func(t *testing.T, text string, longest, at int) {
		text = strings.ToValidUTF8(text, "?")
		longest = 1 + max(0, longest)%50
		whole := cut(longest, text)
		require.Equal(t, text, strings.Join(whole, ""))
		runes := []rune(text)
		at = max(0, at) % (len(runes) + 1)
		require.Equal(t, whole, cut(longest, string(runes[:at]), string(runes[at:])))
		for _, s := range whole {
			require.NotEmpty(t, s)
			require.LessOrEqual(t, len([]rune(s)), longest)
		}
	})
}

func host(t *testing.T, config any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.NewDeclared(declare())
	require.NoError(t, h.Configure(config))
	h.Pieces = 2
	return h
}

func sent(h *middlewaretest.Host) (out []string) {
	for _, c := range h.Sent {
		out = append(out, c.Kind+" "+c.Text+c.Arguments)
	}
	return out
}

func TestWrapModel(t *testing.T) {
	t.Parallel()
	h := host(t, nil)
	h.Model = func(middlewaretest.ModelCall) (*abi.Response, error) {
		m := abi.Assistant("One. Two")
		m.ReasoningContent = "Why."
		m.ToolCalls = []abi.ToolCall{abi.NewToolCall("1", "t", "{}")}
		return &abi.Response{Message: m}, nil
	}
	answer, err := h.WrapModel(abi.WrapModelInput{Request: abi.Request{Stream: true}})
	require.NoError(t, err)
	require.Nil(t, answer.Response, "what was sent is the answer")
	require.Equal(t, []string{"reasoning Wh", "reasoning y.", "text One. ", "text Two", "tool_call {}"}, sent(h))

	answer, err = h.WrapModel(abi.WrapModelInput{})
	require.NoError(t, err)
	require.Nil(t, answer.Response)
	require.Empty(t, h.Sent, "nobody hears it in pieces")
}

func TestModelFails(t *testing.T) {
	t.Parallel()
	h := host(t, nil)
	h.Model = func(middlewaretest.ModelCall) (*abi.Response, error) { return nil, errors.New("broken") }
	_, err := h.WrapModel(abi.WrapModelInput{Request: abi.Request{Stream: true}})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeModel})
	require.Empty(t, h.Sent)
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	h := middlewaretest.NewDeclared(declare())
	require.ErrorContains(t, h.Configure(map[string]any{"longest": 0}), "longest: 0 is below 1")
	require.NoError(t, h.Configure(map[string]any{"longest": 1}))
}
