package sdktest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// byTinyGo returns a host with the Go SDK's test guest, built by TinyGo and configured.
func byTinyGo(t *testing.T) *Host {
	t.Helper()
	h, err := NewWithWASI(t.Context(), guestbuild.TinyGo(t, "guest-sdk/go/internal/wasmtest/testdata/tinygo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	h.Answer = lenient
	require.NotEmpty(t, called(t, h, "describe", `{}`))
	require.Empty(t, called(t, h, "configure", `{"entry":"e","config":{"phrase":"hi"}}`))
	return h
}

func called(t *testing.T, h *Host, hook, input string) string {
	t.Helper()
	output, ok, err := h.Hook(t.Context(), hook, input)
	require.NoError(t, err, h.Printed.String())
	require.True(t, ok, output)
	return output
}

func instructed(instruction string) string {
	return `{` + envelope + `,"instruction":"` + instruction + `","tools":[],"return_directly":[],"messages":{"list":0,"revision":1,"total":0},"model":"m","limits":{"max_steps":1}}`
}

// TestTinyGo checks that a module that TinyGo built has the expected answers, host calls and
// errors.
func TestTinyGo(t *testing.T) {
	t.Parallel()
	h := byTinyGo(t)
	require.JSONEq(t, `{"name":"tinygo","version":"1.2.3","messages":"lazy",
		"hooks":["configure","before_agent","before_model_rewrite_state","gate_tool"],
		"config_schema":{"type":"object","properties":{"phrase":{"type":"string","description":"what to say"}},"additionalProperties":false}}`,
		called(t, h, "describe", `{}`))

	require.Equal(t, `{"instruction":"hi, <be brief>"}`, called(t, h, "before_agent", instructed("<be brief>")))
	require.Equal(t, []string{`emit {"name":"greeted","data":{"with":"hi"}}`}, lines(h.Calls))

	h.Calls = nil
	require.JSONEq(t, `{"messages":{"splice":[{"at":5,"remove":1,"insert":[{"role":"user","content":"hi -41"}]}]}}`,
		called(t, h, "before_model_rewrite_state", `{`+envelope+`,"messages":{"list":0,"revision":9,"total":6},"tools":[]}`))
	require.Equal(t, []string{"local_add seen 1", "messages 0 5 6", `log 1 call -41, last "m5"`}, lines(h.Calls))

	explode := strings.Replace(toolCall, `"name":"t"`, `"name":"explode"`, 1)
	require.JSONEq(
		t,
		`{"stop":{"reason":"no explosions","code":"safety"},"decision":"stop","message":"no explosions"}`,
		called(t, h, "gate_tool", explode),
	)
	require.JSONEq(t, `{"decision":"allow"}`, called(t, h, "gate_tool", toolCall))

	for _, refused := range []struct{ hook, input, want string }{
		{"before_agent", instructed("fail"), `{"code":"unavailable","message":"asked to fail: no luck","retryable":true}`},
		{"configure", `{"config":{"phrases":[]}}`, `{"code":"invalid","message":"config: unknown key phrases; allowed: phrase"}`},
		{"configure", `{"config":{"phrase":7}}`, `{"code":"invalid","message":"config: phrase: want a string, got a number (at byte 10)"}`},
		{"gate_tool", `{"call":{"id":"c"`, ""},
	} {
		output, ok, err := h.Hook(t.Context(), refused.hook, refused.input)
		require.NoError(t, err)
		require.False(t, ok)
		if refused.want != "" {
			require.JSONEq(t, refused.want, output)
		}
	}

	_, _, err := h.Hook(t.Context(), "before_agent", instructed("panic"))
	require.Error(t, err)
	require.Contains(t, h.Printed.String(), "panic: asked to panic")
}

// TestTinyGoHostRefuses checks that a rejected read of messages ends the hook, because TinyGo does
// not recover from panics. The module must print the error.
func TestTinyGoHostRefuses(t *testing.T) {
	t.Parallel()
	h := byTinyGo(t)
	h.Answer = func(c Call) (string, *abi.Error) {
		if c.Import == "messages" {
			return "", &abi.Error{Code: abi.CodeDenied, Message: "not granted"}
		}
		return lenient(c)
	}
	_, _, err := h.Hook(
		t.Context(),
		"before_model_rewrite_state",
		`{`+envelope+`,"messages":{"list":0,"revision":9,"total":6},"tools":[]}`,
	)
	require.Error(t, err)
	require.Contains(t, h.Printed.String(), "not granted")
}

// TestTinyGoMemory checks that the memory of a module that never frees memory stays below 12 MiB in
// the hook calls of a long run. When the memory is full, the SDK must restore it to its state after
// configure.
func TestTinyGoMemory(t *testing.T) {
	t.Parallel()
	h := byTinyGo(t)
	count := func() string { return called(t, h, "before_agent", instructed("count")) }
	require.Equal(t, `{"instruction":"map[before_agent:1]"}`, count())
	require.Equal(
		t,
		`{"instruction":"map[before_agent:2]"}`,
		count(),
		"what a hook leaves in memory is there at the next, most of the time",
	)

	long := strings.Repeat("abc ", 25<<10)
	for range 1000 {
		require.Equal(t, `{"instruction":"hi, `+long+`"}`, called(t, h, "before_agent", instructed(long)))
		require.NotEmpty(
			t,
			called(t, h, "before_model_rewrite_state", `{`+envelope+`,"messages":{"list":0,"revision":9,"total":6},"tools":[]}`),
		)
	}
	require.Less(t, h.Memory(), uint32(12<<20))

	for range 50 {
		called(t, h, "before_agent", instructed(long))
		if count() == `{"instruction":"map[before_agent:1]"}` {
			break // the memory was restored
		}
	}
	require.Equal(t, `{"instruction":"map[before_agent:2]"}`, count())

	require.Empty(t, called(t, h, "configure", `{"entry":"e","config":{"phrase":"bye"}}`))
	for range 100 {
		require.Equal(t, `{"instruction":"bye, `+long+`"}`, called(t, h, "before_agent", instructed(long)))
	}
	require.Less(t, h.Memory(), uint32(16<<20))
}
