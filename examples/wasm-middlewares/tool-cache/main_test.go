package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// A bench is a test host with a tool that returns the number of its calls.
type bench struct {
	*middlewaretest.Host
	calls int
}

func newBench(t *testing.T, config any) *bench {
	t.Helper()
	b := &bench{Host: middlewaretest.New(middleware.Options{}, newCache())}
	require.NoError(t, b.Configure(config))
	b.Tool = func(abi.Call) (*abi.Result, error) {
		b.calls++
		return abi.TextResult(fmt.Sprint("answer ", b.calls)), nil
	}
	return b
}

// call wipes the module's memory, calls a tool and returns its answer.
func (b *bench) call(t *testing.T, name, arguments string) string {
	t.Helper()
	require.NoError(t, b.Wipe())
	before := b.calls
	answer, err := b.WrapToolCall(
		abi.WrapToolCallInput{Call: abi.Call{Name: name, Arguments: arguments, Idempotent: name == "read"}},
	)
	require.NoError(t, err)
	if answer.Result != nil {
		require.Equal(t, before, b.calls, "an answer that was kept needs no call")
		return answer.Result.Content.String()
	}
	return fmt.Sprint("answer ", b.calls)
}

func TestSameCallSameAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	require.Equal(t, "answer 1", b.call(t, "read", `{"path":"a","n":1}`))
	for _, same := range []string{`{"path":"a","n":1}`, `{ "n":1, "path":"\u0061" }`} {
		require.Equal(t, "answer 1", b.call(t, "read", same))
	}
	require.Len(t, b.Events, 2)
	require.Equal(t, "cache_hit", b.Events[0].Name)
	require.Contains(t, string(b.Events[0].Data), `"tool":"read"`)
	for i, other := range []string{`{"path":"a","n":2}`, `{"path":"A","n":1}`, `{"path":"a","n":"1"}`, `{}`} {
		require.Equal(t, fmt.Sprint("answer ", i+2), b.call(t, "read", other))
	}
	require.Len(t, b.Events, 2)
}

func TestWhichTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.call(t, "send", `{}`)
	b.call(t, "send", `{}`)
	require.Equal(t, 2, b.calls, "a tool that is not idempotent is called each time")

	b = newBench(t, map[string]any{"tools": []string{"se*d", "x"}})
	b.call(t, "send", `{}`)
	b.call(t, "send", `{}`)
	require.Equal(t, 1, b.calls)
	b.call(t, "read", `{}`)
	b.call(t, "read", `{}`)
	require.Equal(t, 3, b.calls, "what is not listed is not kept")
}

func TestFailuresAreNotKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.Tool = func(abi.Call) (*abi.Result, error) {
		if b.calls++; b.calls == 1 {
			return nil, errors.New("down")
		}
		if b.calls == 2 {
			return abi.ErrorResult("no"), nil
		}
		return abi.TextResult("yes"), nil
	}
	in := abi.WrapToolCallInput{Call: abi.Call{Name: "read", Arguments: `{}`, Idempotent: true}}
	_, err := b.WrapToolCall(in)
	require.ErrorContains(t, err, "down")
	_, err = b.WrapToolCall(in)
	require.NoError(t, err)
	b.call(t, "read", `{}`)
	require.Equal(t, 3, b.calls)
	require.Equal(t, "yes", b.call(t, "read", `{}`))
}

func TestForget(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"forget": []string{"write*"}})
	b.call(t, "read", `{}`)
	b.call(t, "other", `{}`)
	require.Equal(t, "answer 1", b.call(t, "read", `{}`))
	b.call(t, "write_file", `{}`)
	require.Equal(t, "answer 4", b.call(t, "read", `{}`))
}

func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 100})
	b.Tool = func(abi.Call) (*abi.Result, error) { b.calls++; return abi.TextResult(strings.Repeat("x", 100)), nil }
	b.call(t, "read", `{}`)
	b.call(t, "read", `{}`)
	require.Equal(t, 2, b.calls)
}

func TestResultsAreWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	want := &abi.Result{Content: abi.Parts(abi.Part{Type: abi.PartText, Text: "a"}), Extra: []byte(`{"x":1}`)}
	b.Tool = func(abi.Call) (*abi.Result, error) { return want, nil }
	b.call(t, "read", `{}`)
	answer, err := b.WrapToolCall(abi.WrapToolCallInput{Call: abi.Call{Name: "read", Arguments: `{}`, Idempotent: true}})
	require.NoError(t, err)
	require.Equal(t, want, answer.Result)
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"ttl": 10})
	require.Equal(t, "answer 1", b.call(t, "read", `{}`))
	b.Run.NowMS += 9_999
	require.Equal(t, "answer 1", b.call(t, "read", `{}`))
	b.Run.NowMS++
	require.Equal(t, "answer 2", b.call(t, "read", `{}`))
	require.Equal(t, "answer 2", b.call(t, "read", `{}`), "the new answer has taken the old one's place")
}

// another returns a bench for another run with the same stored values.
func (b *bench) another(t *testing.T, config any) *bench {
	t.Helper()
	other := newBench(t, config)
	other.calls, other.Run.NowMS = b.calls, b.Run.NowMS
	for key, value := range b.Stored() {
		require.NoError(t, other.SetStored(key, value))
	}
	return other
}

func TestDurable(t *testing.T) {
	t.Parallel()
	config := map[string]any{"ttl": 10, "durable": true, "forget": []string{"write"}, "by": []string{"user"}}
	b := newBench(t, config)
	b.Run.Metadata = map[string]abi.JSON{"user": abi.JSON(`"amy"`)}
	require.Equal(t, "answer 1", b.call(t, "read", `{}`))
	b = b.another(t, config)
	require.Equal(t, "answer 2", b.call(t, "read", `{}`), "nobody in particular")
	b.Run.Metadata = map[string]abi.JSON{"user": abi.JSON(`"amy"`)}
	require.Equal(t, "answer 1", b.call(t, "read", `{}`))
	b.Run.NowMS += 10_000
	require.Equal(t, "answer 3", b.call(t, "read", `{}`))
	b.call(t, "write", `{}`)
	b = b.another(t, config)
	b.Run.Metadata = map[string]abi.JSON{"user": abi.JSON(`"amy"`)}
	require.Equal(t, "answer 5", b.call(t, "read", `{}`))
}

// TestWithoutStore checks that all calls reach the tools if the module may not use the store.
func TestWithoutStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"ttl": 10, "durable": true, "forget": []string{"write"}})
	b.NoStore = true
	b.call(t, "read", `{}`)
	b.call(t, "read", `{}`)
	b.call(t, "write", `{}`)
	require.Equal(t, 3, b.calls)
	require.Len(t, b.Logs, 3)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	require.ErrorContains(t, b.Configure(map[string]any{"max_bytes": 0}), "config: max_bytes: 0 is not above 0")
	require.ErrorContains(t, b.Configure(map[string]any{"durable": true}), "config: ttl: want the lifetime of answers")
	require.ErrorContains(t, b.Configure(map[string]any{"ttl": -1}), "config: ttl: -1 is not a number of seconds")
	require.ErrorContains(t, b.Configure(map[string]any{"tool": []string{"x"}}), "tool")
}
