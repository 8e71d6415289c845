package tenants_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// flooding returns the options of an agent whose middleware emits 1 MiB before each of many model
// calls.
func flooding() *agent.Options {
	data := json.RawMessage(`"` + strings.Repeat("x", 128<<10) + `"`)
	c, err := chain.New(hook.Entry{Name: "flood", Ring: hook.Tenant, Middleware: &inproc.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			var err error
			for range 8 {
				err = errors.Join(err, c.Emit("flood", data))
			}
			return nil, err
		}}})
	if err != nil {
		panic(err)
	}
	var replies []scripted.Reply
	for range 50 {
		replies = append(replies, scripted.Calls(abi.NewToolCall("1", "again", "{}")))
	}
	return &agent.Options{Model: scripted.New(replies...), MaxSteps: 100, Chain: c,
		Tools: []tool.Tool{
			tool.Func(
				abi.Tool{Name: "again"},
				func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("ok"), nil },
			),
		}}
}

// TestJournalQuota checks that a run that exceeds the daily or the total quota of journal bytes
// ends, and that no endpoint starts or resumes a run afterwards.
func TestJournalQuota(t *testing.T) {
	t.Parallel()
	asker := servertest.AskingAgent()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{
			"flood":   flooding,
			"greeter": servertest.HelloAgent,
			"asker":   func() *agent.Options { o := *asker; return &o },
		},
	)
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "greeter", []byte("{}"), nil)
	require.NoError(t, err)
	events := f.Events("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "asker", Input: "hi"})
	var paused abi.Event
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1].Data), &paused))
	answer := api.StartRun{
		Run:     paused.Run,
		Answers: map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage(`"a"`)},
	}
	quota := func(q map[string]any) {
		f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": q}, nil)
	}
	var used struct {
		Total api.UsageRow
		Kept  api.StoredSize
	}
	const mebibyte = 1 << 20
	var floods []*api.Run
	for _, name := range []string{"journal_bytes_per_day", "journal_bytes"} {
		f.OK("GET", "/v1/usage", f.Acme, nil, &used)
		before := map[string]int64{
			"journal_bytes_per_day": used.Total.JournalBytes, "journal_bytes": used.Kept.JournalBytes,
		}[name]
		require.Positive(t, before)
		quota(map[string]any{name: before + 2*mebibyte})
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "flood", Input: "hi"}, &run)
		done := f.Finished(f.Acme, run.ID)
		require.Equal(t, abi.RunLimit, done.FinishReason)
		require.Contains(t, done.Error, "quota "+name+" ")
		require.Greater(t, done.JournalBytes, int64(2*mebibyte))
		require.Less(t, done.JournalBytes, int64(6*mebibyte), "two more hooks and the end")
		floods = append(floods, done)
		last := f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil)
		require.Equal(t, []string{"run_finished"}, servertest.Kinds(last[len(last)-1:]))

		f.OK("GET", "/v1/usage", f.Acme, nil, &used)
		now := map[string]int64{
			"journal_bytes_per_day": used.Total.JournalBytes, "journal_bytes": used.Kept.JournalBytes,
		}[name]
		require.GreaterOrEqual(t, now, before+done.JournalBytes, "and its timeline, if there is one by now")
		for _, r := range []*servertest.Reply{
			f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}),
			f.Send("POST", "/v1/chat/completions", f.Acme, []byte(`{"model":"greeter","messages":[{"role":"user","content":"hi"}]}`)),
			f.Send("POST", "/v1/agents/greeter/agui", f.Acme, []byte(`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`)),
			f.Send("POST", "/v1/runs", f.Acme, answer),
		} {
			require.Equal(t, 429, r.Status, "%s", r.Body)
			require.Contains(t, string(r.Body), name)
			require.NotEmpty(t, r.Header.Get("Retry-After"))
		}
		f.OK("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "greeter", Input: "hi"}, nil)
	}

	for _, run := range floods {
		require.Equal(t, 204, f.Send("DELETE", "/v1/runs/"+run.ID, f.Acme, nil).Status)
	}
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, nil)
	quota(map[string]any{"journal_bytes": 1})
	require.Equal(
		t,
		202,
		f.Send("POST", "/v1/runs/"+paused.Run+"/cancel", f.Acme, nil).Status,
		"a run may always be canceled",
	)
	require.Equal(t, "canceled", f.Finished(f.Acme, paused.Run).FinishReason)
}
