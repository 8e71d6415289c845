package server_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestActivityOfRun checks that a stream has events about the activity of modules while a run is in
// progress, if the client asks for them. Other streams must not have these events.
func TestActivityOfRun(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Reply{Hang: true})
	f.Upload(f.Acme, "mask", servertest.MaskModule)
	require.Equal(t, 200, f.Apply(f.Acme, "archivist", "model: {name: small}\nmiddlewares: [{module: mask}]\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "archivist", Input: "Wait."}, &run)
	path := "/v1/runs/" + run.ID

	req, err := http.NewRequestWithContext(t.Context(), "GET", f.URL+path+"/events?activity=true", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+f.Acme)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var now api.RunActivity
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if lines.Text() != "event: activity" {
			continue
		}
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &now))
		if len(now.Modules) == 1 && now.Modules[0].Calls == 2 { // earlier ones have only the call of before_agent
			break
		}
	}
	require.Equal(t, run.ID, now.Run)
	require.Len(t, now.Modules, 1)
	m := now.Modules[0]
	require.Equal(t, "mask", m.Entry)
	require.Equal(t, "before_model", m.Hook)
	require.Equal(t, int64(2), m.Calls)
	require.Positive(t, m.Fuel)
	require.Positive(t, m.MemoryBytes)

	f.OK("POST", path+"/cancel", f.Acme, nil, nil)
	f.Finished(f.Acme, run.ID)
	for _, e := range f.Events("GET", path+"/events", f.Acme, nil) {
		require.NotEqual(t, "activity", e.Kind)
	}
}
