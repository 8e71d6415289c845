package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// each runs a test on every SDK's module in the given folder of its testdata.
func each(t *testing.T, folder string, test func(t *testing.T, h *Host)) {
	t.Helper()
	for _, language := range guestbuild.Languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			h, err := New(t.Context(), guestbuild.Foreign(t, "guest-sdk/"+language+"/testdata/"+folder))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
			test(t, h)
		})
	}
}

const envelope = `"run":{"id":"r","agent":"a","step":1,"max_steps":2,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0},"now_ms":1},"entry":"e"`

const fiveMessages = `{` + envelope + `,"request":{"messages":{"list":1,"revision":9,"total":6},"tools":[],"model":"m"}}`

// lenient replies to every call with success.
func lenient(c Call) (string, *abi.Error) {
	switch c.Import {
	case "messages":
		var from, to int
		_, _ = fmt.Sscan(c.Args[1], &from)
		_, _ = fmt.Sscan(c.Args[2], &to)
		list := []abi.Message{}
		for i := from; i < to; i++ {
			list = append(list, abi.User(fmt.Sprintf("m%d", i)))
		}
		b, _ := json.Marshal(list)
		return string(b), nil
	case "changed":
		return "4", nil
	case "local_get", "store_get":
		if c.Args[0] == "none" {
			return "", nil
		}
		return `{"value":["x", 1],"version":7}`, nil
	case "local_set", "store_set":
		return `{"version":8}`, nil
	case "local_add", "store_add":
		return "-41", nil
	case "model":
		return `{"response":{"message":{"role":"assistant","content":[{"type":"text","text":"sh"},{"type":"text","text":"ort"}]}}}`, nil
	case "tool":
		return `{"result":{"content":"noon"}}`, nil
	case "next":
		return `{"response":{"message":{"role":"assistant","content":"\u00e4\ud83d\ude00"}}}`, nil
	default:
		return "", nil
	}
}

// TestHostCalls checks that all SDKs make the same host calls with the same arguments, and return
// the same replies to the module.
func TestHostCalls(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		h.Answer = lenient
		output, ok, err := h.Hook(t.Context(), "wrap_model", fiveMessages)
		require.NoError(t, err)
		require.True(t, ok, output)
		var answer abi.WrapModelAnswer
		_, err = abijson.Decode([]byte(output), &answer)
		require.NoError(t, err)
		require.Equal(
			t,
			"message=m5; message=m4; message=m3; message=m2; message=m1; message=m0; beyond=invalid; changed=4; "+
				`local_get=["x", 1] 7; missing=0; local_set=ok; local_set=ok; local_add=-41; local_delete=ok; `+
				`store_get=["x", 1] 7; store_set=ok; store_add=-41; store_delete=ok; emit=ok; model=short; tool=noon; next=ä😀; `,
			answer.Response.Message.Content.String(),
		)
		require.Equal(t, []string{
			"messages 1 5 6",
			"messages 1 1 5",
			"messages 1 0 1",
			"changed 1 5",
			"local_get k",
			"local_get none",
			`local_set k {"n":1} 7`,
			`local_set k "a\"b" -1`,
			"local_add c -2",
			"local_delete k",
			"store_get k",
			"store_set k 1 0 60",
			"store_add c 3",
			"store_delete k",
			`emit {"name":"seen","data":{"n":1}}`,
			"log 2 careful",
			`model {"messages":[{"role":"user","content":"in short?"}],"model":"small"}`,
			`tool {"name":"time","arguments":"{}"}`,
			`next {"messages":{"splice":[{"at":6,"insert":[{"role":"user","content":"one more"}]}]},"model":"large"}`,
		}, lines(h.Calls))
	})
}

func lines(calls []Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.String())
	}
	return out
}

// TestHostErrors checks that a module receives the error of each rejected host call as a value.
func TestHostErrors(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		h.Answer = func(c Call) (string, *abi.Error) {
			return "", &abi.Error{Code: abi.CodeDenied, Message: "no " + c.Import, Retryable: true, RetryAfterMS: 1 << 40}
		}
		output, ok, err := h.Hook(t.Context(), "wrap_model", fiveMessages)
		require.NoError(t, err)
		require.True(t, ok, output)
		var answer abi.WrapModelAnswer
		_, err = abijson.Decode([]byte(output), &answer)
		require.NoError(t, err)
		require.Equal(
			t,
			"message=denied; beyond=invalid; changed=0; local_get=denied; missing=denied; local_set=denied; local_set=denied; "+
				"local_add=denied; local_delete=denied; store_get=denied; store_set=denied; store_add=denied; store_delete=denied; "+
				"emit=denied; model=denied; tool=denied; next=denied; ",
			answer.Response.Message.Content.String(),
		)

		output, ok, err = h.Hook(t.Context(), "wrap_tool_call", toolCall)
		require.NoError(t, err)
		require.False(t, ok)
		require.JSONEq(
			t,
			`{"code":"denied","message":"no next_stream","retryable":true,"retry_after_ms":1099511627776}`,
			output,
			"an error that is handed on is whole",
		)
	})
}

const toolCall = `{` + envelope + `,"call":{"id":"c","name":"t","arguments":"{\"path\":\"a\\nb\"}"},"tool":{"name":"t"}}`

// TestStream checks that a module can read a stream and forward it, with the expected host calls.
func TestStream(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		replies := []string{
			`{"chunks":[{"seq":1,"kind":"tool_result","call_id":"c","text":"a"},{"seq":2,"kind":"part","part":{"type":"x","y":1.50}}]}`,
			`{"end":{"result":{"content":"a"}}}`, "",
		}
		h.Answer = func(c Call) (string, *abi.Error) {
			if c.Import != "recv" {
				return "{}", nil
			}
			reply := replies[0]
			replies = replies[1:]
			return reply, nil
		}
		output, ok, err := h.Hook(t.Context(), "wrap_tool_call", toolCall)
		require.NoError(t, err)
		require.True(t, ok, output)
		require.Empty(t, output, "what was sent is the answer")
		require.Equal(t, []string{
			`next_stream {"arguments":"{\"x\":1}"}`, "recv",
			`send {"chunks":[{"seq":1,"kind":"tool_result","call_id":"c","text":"a"},{"seq":2,"kind":"part","part":{"type":"x","y":1.50}}]}`,
			"recv", "log 1 a", "recv",
		}, lines(h.Calls))
	})
}

// TestAnswers checks that the helpers of each SDK return the expected answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	each(t, "probe", func(t *testing.T, h *Host) {
		for _, c := range []struct{ hook, input, output string }{
			{"on_chunk", `{` + envelope + `,"chunks":[{"kind":"reasoning","text":"r"},{"kind":"text","text":"t"}],"final":false}`, `{"chunks":[{"kind":"text","text":"t"}]}`},
			{"on_chunk", `{` + envelope + `,"chunks":[{"kind":"reasoning","text":"r"}],"final":true}`, `{"chunks":[]}`},
			{"before_agent", `{` + envelope + `,"instruction":"i","tools":[],"return_directly":[],"messages":{"list":0,"revision":1,"total":0},"model":"m","limits":{"max_steps":1}}`,
				`{"stop":{"reason":"closed","code":"hours"}}`},
			{"gate_tool", toolCall, `{"decision":"ask","message":"may it?","payload":{"cost":1}}`},
			{"before_tool", toolCall, `{"arguments":"{\"path\":\"a\\nb\"}"}`},
			{"describe", `{}`, `{"name":"probe","version":"1.0.0","description":"Makes every host call.","messages":"lazy"}`},
		} {
			output, ok, err := h.Hook(t.Context(), c.hook, c.input)
			require.NoError(t, err, c.hook)
			require.True(t, ok, "%s: %s", c.hook, output)
			require.Equal(t, c.output, output, c.hook)
		}
	})
}

// TestBadInput checks that a hook fails for input that a host never writes, and that the next hook
// succeeds.
func TestBadInput(t *testing.T) {
	t.Parallel()
	deep := ""
	for range 70 {
		deep += "["
	}
	each(t, "probe", func(t *testing.T, h *Host) {
		for _, input := range []string{
			``, ` `, `{`, `[]`, `{} {}`, `{"call":}`, `{"call":[]}`, `{"call":{"id":"c"`, `{"entry":7}`, `{"entry":"\x"}`,
			`{"entry":"\u12"}`, `{"entry":"a`, "{\"entry\":\"a\nb\"}", `{"entry":"a",}`, `{"x":01}`, `{"x":1.}`, `{"x":tru}`,
			`{"x":` + deep, `{"run":{"step":1.5}}`, `{"run":{"step":"1"}}`,
		} {
			output, ok, err := h.Hook(t.Context(), "gate_tool", input)
			require.NoError(t, err, input)
			require.False(t, ok, "%s: %s", input, output)
			var failed abi.Error
			_, err = abijson.Decode([]byte(output), &failed)
			require.NoError(t, err, input)
			require.Equal(t, abi.CodeInternal, failed.Code)
		}
		_, ok, err := h.Hook(t.Context(), "gate_tool", toolCall)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

// TestMemory checks that the module's memory stays below 8 MiB in the hook calls of a long run.
func TestMemory(t *testing.T) {
	t.Parallel()
	var chunks []string
	for range 500 {
		chunks = append(chunks, `{"kind":"text","text":"`+strings.Repeat("abc ", 50)+`"}`)
	}
	input := `{` + envelope + `,"chunks":[` + strings.Join(chunks, ",") + `],"final":false}`
	each(t, "probe", func(t *testing.T, h *Host) {
		h.Answer = lenient
		for range 200 {
			_, ok, err := h.Hook(t.Context(), "on_chunk", input)
			require.NoError(t, err)
			require.True(t, ok)
			_, ok, err = h.Hook(t.Context(), "wrap_model", fiveMessages)
			require.NoError(t, err)
			require.True(t, ok)
		}
		require.Less(t, h.Memory(), uint32(8<<20))
	})
}
