package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// kind returns the name of the type in the table of [agent.Error] that errors.As finds in err. It
// fails the test unless errors.As finds exactly one.
func kind(t *testing.T, err error) string {
	t.Helper()
	var kinds []string
	for name, is := range map[string]bool{
		"stop":         as[*ending.StoppedError](err),
		"canceled":     as[*agent.CanceledError](err),
		"timed out":    as[*agent.TimeoutError](err),
		"limited":      as[*ending.LimitError](err),
		"fault":        as[*ending.FaultError](err),
		"hook failed":  as[*ending.HookError](err),
		"model":        as[*agent.ModelError](err),
		"not admitted": as[*agent.AdmissionError](err),
	} {
		if is {
			kinds = append(kinds, name)
		}
	}
	require.Len(t, kinds, 1, "%#v", err)
	return kinds[0]
}

// as reports whether errors.As finds a T in err.
func as[T error](err error) bool {
	var e T
	return errors.As(err, &e)
}

// TestEveryEndingHasAType checks that errors.As finds exactly one type of the table of [agent.Error] in
// the error of a failed run, and that the error and run_finished have the same finish reason.
func TestEveryEndingHasAType(t *testing.T) {
	t.Parallel()
	before := func(answer *abi.BeforeModelAnswer, err error) []hook.Entry {
		return []hook.Entry{
			nativeEntry(
				"guard",
				&inproc.Middleware{
					BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
						return answer, err
					},
				},
			),
		}
	}
	for _, test := range []struct {
		name    string
		o       agent.Options
		entries []hook.Entry
		reply   scripted.Reply
		cancel  bool
		want    string
		reason  string
	}{
		{name: "stop", entries: before(&abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "quota", Code: "q-1"}}}, nil), want: "stop", reason: abi.RunStopped},
		{name: "cancel", reply: scripted.Reply{Hang: true}, cancel: true, want: "canceled", reason: abi.RunCanceled},
		{name: "time-out", reply: scripted.Reply{Hang: true}, o: agent.Options{Timeout: 10 * time.Millisecond}, want: "timed out", reason: abi.RunTimeout},
		{name: "steps", reply: calls("t#1"), o: agent.Options{MaxSteps: 1}, want: "limited", reason: abi.RunMaxSteps},
		{name: "tool calls", reply: calls("t#1", "t#2"), o: agent.Options{Limits: agent.Limits{ToolCalls: 1}}, want: "limited", reason: abi.RunLimit},
		{name: "fault", entries: []hook.Entry{nativeEntry("guard", &inproc.Middleware{BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			panic("oops")
		}})}, want: "fault", reason: abi.RunError},
		{name: "hook failed", entries: []hook.Entry{nativeEntry("guard", &inproc.Middleware{BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return nil, errors.New("no")
		}})}, want: "hook failed", reason: abi.RunError},
		{name: "model", reply: scripted.Reply{Err: model.Errorf(abi.CodeModel, "overloaded")}, want: "model", reason: abi.RunError},
		{name: "a module for the model", entries: before(nil, errors.New("not today")), want: "model", reason: abi.RunError},
		{name: "no room", o: agent.Options{Admit: func(ctx context.Context, _ *chain.Chain, _ int) (context.Context, *agent.Admission, error) {
			return ctx, nil, errors.New("full")
		}}, want: "not admitted", reason: abi.RunError},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := test.o
			o.Chain, o.Tools = with(t, test.entries...), counted(new(int))
			reply := test.reply
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancel {
				reply.Do = func(context.Context, *model.Request) error { cancel(); return nil }
			}
			o.Model = scripted.New(reply)
			a, err := agent.New(&o)
			require.NoError(t, err)
			var last abi.Event
			for last, err = range a.Run(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
			}
			var ended *agent.Error
			require.ErrorAs(t, err, &ended)
			require.Equal(t, test.reason, ended.FinishReason)
			require.Equal(t, test.reason, last.FinishReason)
			require.Equal(t, test.want, kind(t, err))
			require.Equal(t, test.cancel, errors.Is(err, context.Canceled))
			require.Equal(t, test.want == "timed out", errors.Is(err, context.DeadlineExceeded))
			if test.want == "stop" {
				var stop *ending.StoppedError
				require.ErrorAs(t, err, &stop)
				require.Equal(
					t,
					ending.StoppedError{Entry: "guard", Hook: contract.HookBeforeModel, Reason: "quota", Code: "q-1"},
					*stop,
				)
				require.Equal(
					t,
					[]any{"guard", contract.HookBeforeModel, "quota", "q-1"},
					[]any{last.StoppedBy, last.Hook, last.Reason, last.StopCode},
				)
			}
		})
	}
}

func TestWhoFailedTheModelCall(t *testing.T) {
	t.Parallel()
	tr := try(
		t,
		agent.Options{
			Chain: with(
				t,
				nativeEntry(
					"guard",
					&inproc.Middleware{
						BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
							return nil, &abi.Error{Code: abi.CodeDenied, Message: "not today"}
						},
					},
				),
			),
		},
		nil,
	)
	var failed *agent.ModelError
	require.ErrorAs(t, tr.err, &failed)
	require.Equal(t, "guard", failed.Source)
	require.Equal(t, abi.Error{Code: abi.CodeDenied, Message: "guard: not today"}, *failed.Err)
	require.Equal(t, failed.Err, tr.last().Error)
}

func TestTheCallersDeadline(t *testing.T) {
	t.Parallel()
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Reply{Hang: true}), Timeout: time.Hour})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for _, err = range a.Run(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
	}
	var out *agent.TimeoutError
	require.ErrorAs(t, err, &out)
	require.Zero(t, out.After, "it was not the agent's own time-out")
}

func TestTheRecordOfAPhaseHasALimit(t *testing.T) {
	t.Parallel()
	large := nativeEntry(
		"large",
		&inproc.Middleware{
			BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				hook.ControlOf(c).Weigh(200 << 20)
				return nil, nil
			},
		},
	)
	tr := try(t, agent.Options{Chain: with(t, large)}, nil)
	var fault *ending.FaultError
	require.ErrorAs(t, tr.err, &fault)
	require.Equal(t, "record_bytes", fault.Limit)
	require.ErrorContains(t, tr.err, "large: before_model: what hooks, model and tools answered in one phase")
}
