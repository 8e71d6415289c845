package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestThreadForks checks that a fork continues from any message or run, that the original thread does
// not change, and that the runs of each thread are listed.
func TestThreadForks(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"counter": servertest.CountingAgent})
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "counter", []byte("{}"), nil)
	require.NoError(t, err)
	h := f.CreateThread(
		f.Acme,
		api.CreateThread{Agent: "counter", Metadata: map[string]string{"team": "a"}, Subject: "ann"},
	)
	first := f.Say(f.Acme, h.ID, "one")
	f.Say(f.Acme, h.ID, "two")

	fork := func(in api.ForkThread) *api.Thread {
		var out api.Thread
		require.Equal(t, 201, f.OK("POST", "/v1/threads/"+h.ID+"/fork", f.Acme, in, &out).Status)
		require.Equal(t, h.ID, out.Parent)
		require.Equal(t, []string{"counter", "ann", "a"}, []string{out.Agent, out.Subject, out.Metadata["team"]})
		return &out
	}
	var page struct{ Messages []api.ThreadMessage }
	f.OK("GET", "/v1/threads/"+h.ID+"/messages", f.Acme, nil, &page)
	message := fork(api.ForkThread{Message: page.Messages[2].ID})
	require.EqualValues(t, 3, message.Messages)
	require.Equal(t, "one", message.Title)
	run := fork(api.ForkThread{Run: first.ID, Title: "Again"})
	require.Equal(t, "Again", run.Title)
	all := fork(api.ForkThread{})
	require.Equal(t, "3: other", f.Say(f.Acme, run.ID, "other").Output)
	require.Equal(t, "5: other", f.Say(f.Acme, all.ID, "other").Output)
	require.Equal(
		t,
		[]string{"user: one", "assistant: 1: one", "user: other", "assistant: 3: other"},
		f.Said(f.Acme, run.ID),
	)
	require.Equal(t, []string{"user: one", "assistant: 1: one", "user: two", "assistant: 3: two"}, f.Said(f.Acme, h.ID))

	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs?thread="+h.ID+"&order=oldest", f.Acme, nil, &list)
	require.Len(t, list.Runs, 2)
	require.Equal(t, first.ID, list.Runs[0].ID)
	f.OK("GET", "/v1/runs?agent=counter&status=finished&thread="+run.ID, f.Acme, nil, &list)
	require.Len(t, list.Runs, 1)

	for name, in := range map[string]api.ForkThread{
		"other thread's message": {Message: "none"},
		"run of another thread":  {Run: list.Runs[0].ID},
		"control character":      {Message: "a\x00"},
		"both":                   {Message: "a", Run: first.ID},
		"unknown agent":          {Agent: "none"},
	} {
		r := f.Send("POST", "/v1/threads/"+h.ID+"/fork", f.Acme, in)
		require.Contains(t, []int{404, 422}, r.Status, "%s: %s", name, r.Body)
	}
	f.Send("POST", "/v1/threads/"+h.ID+"/fork", f.Beta, api.ForkThread{}).Problem(t, 404)
	f.Send("GET", "/v1/threads/"+h.ID+"/export", f.Beta, nil).Problem(t, 404)
	f.Send("GET", "/v1/runs?thread="+h.ID, f.Beta, nil).Problem(t, 404)
}

// TestThreadExport checks that an export has the thread, its runs and its messages, also of a thread of
// several pages.
func TestThreadExport(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	populateThread(t, f, f.Store.Tenant("acme"), 1234)
	r := f.OK("GET", "/v1/threads/thr_long/export", f.Acme, nil, nil)
	require.Equal(t, "application/x-ndjson", r.Header.Get("Content-Type"))
	var kinds []string
	var records []api.ThreadRecord
	for line := range bytes.Lines(r.Body) {
		var record api.ThreadRecord
		require.NoError(t, json.Unmarshal(line, &record))
		records = append(records, record)
	}
	for i, record := range records {
		switch {
		case record.Thread != nil:
			kinds = append(kinds, "thread")
		case record.Run != nil:
			kinds = append(kinds, "run")
			require.Equal(t, "thr_long", record.Run.Thread)
		case record.Message != nil:
			require.EqualValues(t, i-2, record.Message.Position)
			require.Equal(t, records[1].Run.ID, record.Message.Run)
		}
	}
	require.Equal(t, []string{"thread", "run"}, kinds)
	require.Len(t, records, 1234+3)
	require.True(t, records[len(records)-1].End)
	require.Equal(t, fmt.Sprint(1234), fmt.Sprint(records[0].Thread.Messages))
}
