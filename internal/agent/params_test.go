package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// TestAskedAgain checks that the model is asked once more if its final answer does not pass the
// check. It must not be asked again if the answer was cut off or the run may have no further step.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	check := func(text string) string {
		if text == "good" {
			return ""
		}
		return "it is not good"
	}
	cut := scripted.Text("goo")
	cut.Response.FinishReason = abi.FinishLength
	for name, c := range map[string]struct {
		replies []scripted.Reply
		steps   int
		want    string
	}{
		"good":       {[]scripted.Reply{scripted.Text("good")}, 0, "good"},
		"then good":  {[]scripted.Reply{scripted.Text("bad"), scripted.Text("good")}, 0, "good"},
		"bad":        {[]scripted.Reply{scripted.Text("bad"), scripted.Text("worse")}, 0, "worse"},
		"cut":        {[]scripted.Reply{cut}, 0, "goo"},
		"last step":  {[]scripted.Reply{scripted.Text("bad")}, 1, "bad"},
		"after tool": {[]scripted.Reply{scripted.Calls(abi.NewToolCall("c1", "none", "{}")), scripted.Text("bad"), scripted.Text("good")}, 0, "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := scripted.New(c.replies...)
			a, err := New(&Options{Model: m, MaxSteps: c.steps})
			require.NoError(t, err)
			var last abi.Event
			a = WithRequest(a, Requested{Check: check})
			for e, err := range a.Run(t.Context(), Input{Messages: []abi.Message{abi.User("hi")}}) {
				require.NoError(t, err)
				last = e
			}
			require.Equal(t, c.want, last.Message.Content.String())
			asked := m.Requests()
			require.Len(t, asked, len(c.replies))
			if name == "then good" {
				messages := asked[1].Messages
				require.Contains(t, messages[len(messages)-1].Content.String(), "it is not good. Answer again")
				require.Equal(t, "bad", messages[len(messages)-2].Content.String())
			}
		})
	}
}

// TestParamsWith checks how parameters of a request and of an agent combine.
func TestParamsWith(t *testing.T) {
	t.Parallel()
	p := func(list ...string) abi.Params {
		out := abi.Params{}
		for i := 0; i < len(list); i += 2 {
			out[list[i]] = abi.JSON(list[i+1])
		}
		return out
	}
	for _, c := range []struct{ own, more, want abi.Params }{
		{nil, nil, nil},
		{p("seed", "1"), nil, p("seed", "1")},
		{p("seed", "1"), p("seed", "2", "top_p", "1"), p("seed", "2", "top_p", "1")},
		{nil, p("max_tokens", "5"), p("max_tokens", "5")},
		{p("max_tokens", "3"), p("max_tokens", "5"), p("max_tokens", "3")},
		{p("max_tokens", "7"), p("max_tokens", "5"), p("max_tokens", "5")},
		{p("max_completion_tokens", "7"), p("max_tokens", "5"), p("max_completion_tokens", "5")},
		{p("max_completion_tokens", "3"), p("max_tokens", "5"), p("max_completion_tokens", "3")},
		{p("max_tokens", "null"), p("max_tokens", "5"), p("max_tokens", "5")},
		{nil, p("max_tokens", "5", "max_completion_tokens", "7"), p("max_completion_tokens", "5")},
		{nil, p("max_tokens", "7", "max_completion_tokens", "5"), p("max_completion_tokens", "5")},
		{p("max_tokens", "6"), p("max_tokens", "7", "max_completion_tokens", "5"), p("max_tokens", "5")},
	} {
		a := &Agent{Options: Options{Params: c.own}}
		for range 10 { // the result must not depend on the order of the map
			require.Equal(t, c.want, a.paramsWith(c.more))
		}
	}
}
