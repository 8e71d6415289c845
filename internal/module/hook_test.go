package module

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func do(letter string) string { return fmt.Sprintf(`{"do":%q}`, letter) }

// TestFaults checks that mistakes of a module are faults, and that each fault names the mistake.
func TestFaults(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute}})
	shortLimit := load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{HookTime: 50 * time.Millisecond}})
	roomy := load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{MemoryBytes: 256 << 20}})
	for name, tc := range map[string]struct {
		letter, want string
		kind         sandbox.FaultKind // kind of the sandbox's fault; empty for other faults
		module       *Module
	}{
		"trap":                {"t", "unreachable executed", sandbox.FaultTrap, m},
		"loop":                {"l", "ran longer than 50ms", sandbox.FaultTimeout, shortLimit},
		"recursion":           {"d", "nested too deeply", sandbox.FaultStack, m},
		"memory":              {"m", "refused memory beyond 64 MiB", sandbox.FaultMemory, m},
		"write out of bounds": {"p", "agent_middleware_v1.write: 32 bytes at 0xfffffff0 do not lie in the memory", sandbox.FaultBounds, m},
		"read out of bounds":  {"q", "agent_middleware_v1.read: 10 bytes at 0xfffffff8 do not lie in the memory", sandbox.FaultBounds, m},
		"log out of bounds":   {"j", "agent_middleware_v1.log: 4294967295 bytes at 0x0 do not lie in the memory", sandbox.FaultBounds, m},
		"100 MB, no room":     {"b", "100000000 bytes at 0x0 do not lie in the memory", sandbox.FaultBounds, m},
		"100 MB":              {"b", "the answer: 100000000 bytes, more than the limit output_bytes of 8388608", "", roomy},
		"host calls":          {"h", "host call 10001, more than the limit host_calls of 10000", "", m},
		"returns 2":           {"r", "returned 2; want 0 for done or 1 for failed", "", m},
		"returns -1":          {"n", "returned -1; want 0 for done or 1 for failed", "", m},
		"garbage":             {"g", "answer: want a JSON value", "", m},
		"invalid UTF-8":       {"u", "answer: instruction: not valid UTF-8", "", m},
		"wrong shape":         {"s", "answer: instruction: want a string, got a number", "", m},
		"case of a key":       {"i", `answer: Instruction: key "Instruction" differs from "instruction" in case only`, "", m},
		"failed with garbage": {"F", "returned 1, and its error object: want a JSON value", "", m},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, tc.module, do(tc.letter)))
			_, err := r.beforeAgent(t)
			var fault *ending.FaultError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, fault.Cause, tc.want)
			require.Equal(t, "guard", fault.Entry)
			require.Equal(t, contract.HookBeforeAgent, fault.Hook)
			require.Equal(t, tc.module.Info().Digest, fault.Digest)
			var guest *sandbox.FaultError
			if errors.As(err, &guest) {
				require.Equal(t, tc.kind, guest.Kind)
				require.NotContains(t, fault.Cause.Error(), "before_agent:", "the hook is named once")
			} else {
				require.Empty(t, tc.kind)
			}
			require.Len(t, r.host.faults(), 1)
			stats := r.Stats()[0]
			require.Equal(t, int64(1), stats.Faults)
			require.Equal(t, int64(1), stats.Calls)
		})
	}
}

// TestInvalidAnswersAreCounted checks that the entry's statistics count an invalid answer as a
// fault.
func TestInvalidAnswersAreCounted(t *testing.T) {
	t.Parallel()
	m, err := loadBytes(t, answering(t, "{}", `{"respond":{"role":"user","content":"I am the model"}}`, 0),
		policy.Limits{})
	require.NoError(t, err)
	r := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, "{}"), OnFault: hook.Skip})
	for range 2 {
		_, err = r.beforeAgent(t)
		require.NoError(t, err)
	}
	require.Len(t, r.host.faults(), 2)
	stats := r.Stats()[0]
	require.Equal(t, int64(2), stats.Calls)
	require.Equal(t, int64(2), stats.Faults)
}

// TestFaultedInstance checks that an instance is not reused after a fault.
func TestFaultedInstance(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	r := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, do("t")), OnFault: hook.Skip})
	for range 3 {
		start, err := r.beforeAgent(t)
		require.NoError(t, err)
		require.Equal(t, "as it was", start.Instruction)
	}
	stats := r.Stats()[0]
	require.Equal(t, int64(3), stats.Faults)
	require.Equal(t, int64(3), stats.Instances)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	for letter, want := range map[string]abi.Error{
		"f": {Code: abi.CodeDenied, Message: "not today"},
		"o": {Code: abi.CodeInternal, Message: "before_agent failed without an error message"},
		"c": {Code: abi.CodeInternal, Message: "m"},
	} {
		t.Run(letter, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, m, do(letter)))
			_, err := r.beforeAgent(t)
			var failed *ending.HookError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, &want, failed.Err)
			require.Zero(t, r.Stats()[0].Faults)
			_, err = r.beforeAgent(t)
			require.Error(t, err)
			require.Equal(t, int64(1), r.Stats()[0].Instances, "a failure leaves the instance in order")
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	for letter, want := range map[string]string{
		"w": "second", // the last write counts
		"e": "as it was",
		".": "as it was",
		"k": "x",
	} {
		t.Run(letter, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, m, do(letter)))
			start, err := r.beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, want, start.Instruction)
			if letter == "k" {
				_, err := r.beforeAgent(t)
				require.NoError(t, err)
				require.Equal(t, []string{"warn answer: unknown key speed"}, r.host.logs(), "once per run")
			}
		})
	}
}

// TestHostCalls checks the replies of host calls. The module sends each reply as an event.
func TestHostCalls(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	for letter, want := range map[string][]string{
		"a": {"count 4", `reply {"do":"a"}`},
		"M": {`reply [{"id":"m0","role":"user","content":"hello"},{"id":"m1","role":"user","content":"how are you?"}]`},
		"X": {`error {"code":"invalid","message":"before_agent has no list 7 of messages"}`},
		"C": {"count 0", "count 0"},
		"D": {`error {"code":"invalid","message":"before_agent has no list 9 of messages"}`},
		"S": {`reply {"version":1}`, `reply {"value":{"n":1},"version":1}`,
			`error {"code":"conflict","message":"run-local key key has version 1, not 99","retryable":true}`,
			"count 0", "count 0",
			`error {"code":"invalid","message":"the value of run-local key key is not JSON: want a JSON value, such as null (at byte 0)"}`},
		"A": {"reply 5", "reply -2"},
		"K": {`error {"code":"limit","message":"a key of 257 bytes; at most 256 are allowed"}`,
			`error {"code":"invalid","message":"a run-local key is empty"}`,
			`error {"code":"invalid","message":"the key is not valid UTF-8"}`},
		"E": {`error {"code":"invalid","message":"emit: want a JSON value, such as null (at byte 0)"}`,
			`error {"code":"invalid","message":"emit: unknown key more; want name and data"}`},
		"N": {`error {"code":"denied","message":"next is for wrap_model and wrap_tool_call, not for before_agent"}`},
		"0": {`error {"code":"denied","message":"next_stream is for wrap_model and wrap_tool_call, not for before_agent"}`},
		"1": {`error {"code":"denied","message":"recv is for wrap_model and wrap_tool_call, not for before_agent"}`},
		"2": {`error {"code":"denied","message":"send is for wrap_model, wrap_tool_call and call_tool, not for before_agent"}`},
		"3": {`error {"code":"denied","message":"model is not granted to this entry; add grants: [model] in agent.yaml"}`},
		"4": {`error {"code":"denied","message":"tool:NAME is not granted to this entry; add grants: [tool:NAME] in agent.yaml"}`},
		"5": {`error {"code":"denied","message":"http:HOST is not granted to this entry; add grants: [http:HOST] in agent.yaml"}`},
		"6": {`error {"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}`},
		"7": {`error {"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}`},
		"8": {`error {"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}`},
		"9": {`error {"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}`},
	} {
		t.Run(letter, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, m, do(letter)))
			_, err := r.beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, want, r.host.customs())
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	for read, want := range map[string]string{
		"read:none": `error {"code":"denied","message":"with the grant read:none, this entry can read the messages from index 2 on"}`,
		"read:last": `error {"code":"denied","message":"with the grant read:last, this entry can read the messages from index 1 on"}`,
	} {
		grants, err := policy.ParseGrants([]string{read})
		require.NoError(t, err)
		mw, err := Configure(t.Context(), m, "guard", []byte(do("M")), grants)
		require.NoError(t, err)
		defer mw.Close()
		r := open(t, mw)
		_, err = r.beforeAgent(t)
		require.NoError(t, err)
		require.Equal(t, []string{want}, r.host.customs())
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	r := open(t, configure(t, m, do("O")))
	_, err := r.beforeAgent(t)
	require.NoError(t, err)
	require.Equal(t, []string{`warn hello` + "\ufffd" + `\x1b[31m`}, r.host.logs())

	r = open(t, configure(t, m, do("L")))
	_, err = r.beforeAgent(t)
	require.NoError(t, err)
	logs := r.host.logs()
	require.Len(t, logs, 3, "two lines and a word about the others")
	require.Contains(t, logs[0], "… (55904 bytes more)")
	require.Contains(t, logs[1], "exceeds the limit log_bytes of 65536")
}

func TestWrapTool(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	text := func(_ context.Context, call abi.Call) (*abi.Result, error) {
		return abi.TextResult("did " + call.Arguments), nil
	}
	for letter, want := range map[string][]string{
		"N": {`reply {"result":{"content":"did {\"n\":1}"}}`},
		"P": {`reply {"result":{"content":"did {\"n\":2}"}}`},
		"B": {`error {"code":"invalid","message":"next: patch of the call: arguments: want a string, got a number (at byte 13)"}`},
	} {
		r := open(t, configure(t, m, do(letter)))
		_, err := r.callTool(t.Context(), text)
		require.NoError(t, err)
		// before_tool, wrap_tool_call and after_tool received the same letter.
		require.Len(t, r.host.customs(), 3)
		require.Equal(t, want[0], r.host.customs()[1])
		if letter == "P" {
			require.Equal(t, []string{"warn next: patch of the call: unknown key model"}, r.host.logs())
		}
	}
}

func next(times string) string { return fmt.Sprintf(`{"next":%q}`, times) }

// TestNext checks the number of tool calls and the result if a module does not call next, calls it
// once, or calls it twice. It also checks the results if the tool fails or its reply is too large.
func TestNext(t *testing.T) {
	t.Parallel()
	m := load(t, "wrap.wasm", policy.Limits{})
	for times, calls := range map[string]int{"0": 1, "1": 1, "2": 2} {
		made := 0
		r := open(t, configure(t, m, next(times)))
		outcome, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
			made++
			return abi.TextResult(fmt.Sprint("call ", made)), nil
		})
		require.NoError(t, err)
		require.Equal(t, calls, made)
		require.Equal(t, fmt.Sprint("call ", calls), outcome.Result.Content.String())
	}
	r := open(t, configure(t, m, next("1")))
	outcome, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
		return nil, &abi.Error{Code: abi.CodeTool, Message: "out of order"}
	})
	require.NoError(t, err)
	require.True(t, outcome.Result.IsError)
	require.Contains(t, outcome.Result.Content.String(), "out of order")

	small := load(t, "wrap.wasm", policy.Limits{ReplyBytes: 100})
	r = open(t, configure(t, small, next("1")))
	outcome, err = r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
		return abi.TextResult(strings.Repeat("x", 100)), nil
	})
	require.NoError(t, err)
	require.Contains(t, outcome.Result.Content.String(), "the reply has 125 bytes, more than the limit reply_bytes of 100")
}

// TestWrapModel checks that a module can call next twice for one model call.
func TestWrapModel(t *testing.T) {
	t.Parallel()
	r := open(t, configure(t, load(t, "wrap.wasm", policy.Limits{}), next("2")))
	made := 0
	res, _, err := r.CallModel(t.Context(), chain.ModelCall{
		Request: chain.ModelRequest{Messages: conversation("hello"), Model: "small"},
		State:   conversation("hello"),
		Generate: func(context.Context, chain.ModelRequest, pipe.Sink) (*abi.Response, error) {
			made++
			return &abi.Response{Message: abi.Assistant(fmt.Sprint("answer ", made)), FinishReason: abi.FinishStop}, nil
		},
		Delivered: func() bool { return false },
	})
	require.NoError(t, err)
	require.Equal(t, "answer 2", res.Message.Content.String())
}

// TestEndings checks that a guest that waits in next cannot catch the end of the run. The host
// discards the guest, and returns the error that ended the run unchanged.
func TestEndings(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	stop := &inproc.Middleware{
		WrapToolCall: func(context.Context, *hook.Call, *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			return &abi.WrapToolCallAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough"}}}, nil
		},
	}
	wrap := load(t, "wrap.wasm", policy.Limits{})
	r := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, wrap, next("1")), OnFault: hook.Skip},
		hook.Entry{Name: "inner", Middleware: stop})
	_, err := r.callTool(t.Context(), nil)
	var stopped *ending.StoppedError
	require.ErrorAs(t, err, &stopped)
	require.Equal(t, "inner", stopped.Entry)
	require.Empty(t, r.host.faults())
	require.Zero(t, r.Stats()[0].Faults)

	r = openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, wrap, next("1")), OnFault: hook.Skip},
		hook.Entry{Name: "trap", Middleware: wrapOnly{configure(t, m, do("t"))}})
	_, err = r.callTool(t.Context(), nil)
	var fault *ending.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "trap", fault.Entry)
	require.Equal(t, contract.HookWrapToolCall, fault.Hook)
	require.Zero(t, r.Stats()[0].Faults, "the fault is the inner module's")

	ctx, cancel := context.WithCancelCause(t.Context())
	r = open(t, configure(t, wrap, next("1")))
	_, err = r.callTool(ctx, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		cancel(errors.New("the caller left"))
		return nil, ctx.Err()
	})
	require.EqualError(t, err, "the caller left")
	require.Zero(t, r.Stats()[0].Faults)
}

// wrapOnly restricts a middleware to wrap_tool_call.
type wrapOnly struct{ *Middleware }

func (w wrapOnly) Describe() hook.Description {
	d := w.Middleware.Describe()
	d.Hooks = []abi.Hook{contract.HookWrapToolCall}
	return d
}

// TestCancelLoop checks that canceling the run interrupts a looping guest.
func TestCancelLoop(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{HookTime: time.Hour}})
	r := open(t, configure(t, m, do("l")))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.BeforeAgent(ctx, chain.Start{Messages: conversation()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var fault *ending.FaultError
	require.False(t, errors.As(err, &fault))
	require.Zero(t, r.Stats()[0].Faults)
}
