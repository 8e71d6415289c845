package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/server/signin"
	"github.com/agent-runner/agent-runner/internal/store"
)

// walkReply is a model that calls the calculator once, and then answers.
func walkReply(_ int, req *model.Request) scripted.Reply {
	if req.Messages[len(req.Messages)-1].Role == abi.RoleTool {
		return scripted.Text("It is done.")
	}
	return scripted.Calls(abi.NewToolCall("call_1", "calculator", `{"expression":"6*7"}`))
}

// TestWalkThrough checks a rollout in a browser. A person signs in with an identity provider, uploads
// a module, and replays stored runs with the module. The person then starts a rollout of the module
// to 10 percent of the runs. The module denies tool calls, and the rollout is rolled back. The audit
// log must show these actions.
func TestWalkThrough(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	in := browserInput{Folder: npmtest.Folder(t), Chromium: npmtest.Chromium(t), Shots: os.Getenv("CONSOLE_SHOTS")}
	front := httptest.NewUnstartedServer(nil)
	f := servertest.New(t, servertest.WithProvider(servertest.NewProvider(t), func(o *signin.Options) {
		o.RedirectURL = "http://" + front.Listener.Addr().String() + "/auth/callback"
	}))
	front.Config.Handler = f.Server
	front.Start()
	t.Cleanup(front.Close)
	servertest.AddMember(t, f, "acme", "ann@acme.example", "owner")
	f.SetModel(scripted.Func(walkReply))
	f.Upload(
		f.Acme,
		"guard",
		`export default { name: "guard", version: "1.0.0", gate_tool() { return { decision: "allow" }; } };`,
	)
	r := f.Apply(f.Acme, "clerk",
		"model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares:\n- module: guard@1 # the first one\n")
	require.Equal(t, 200, r.Status, "%s", r.Body)
	for i := range 8 {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: fmt.Sprint("Pay back order ", i)}, &run)
		require.Equal(t, "It is done.", f.Finished(f.Acme, run.ID).Output)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { f.Services.Replays.Watch(ctx) })
	background.Go(func() { traffic(f, ctx) })
	background.Go(func() { checkRollouts(f, ctx) })
	defer background.Wait()
	defer cancel()

	in.URL, in.Key, in.Operator = front.URL, f.Acme, f.Operator
	text, err := json.Marshal(in)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "walk.mjs"))
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	require.Contains(t, string(out), "ok: walk")

	var a api.Agent
	f.OK("GET", "/v1/agents/clerk@stable", f.Acme, nil, &a)
	require.Equal(t, int64(1), a.Version)
	f.OK("GET", "/v1/agents/clerk@2", f.Acme, nil, &a)
	require.Contains(t, a.YAML, "name: guard", "the entry keeps its name")
}

// checkRollouts checks rollouts until ctx is done. The server itself checks them less often.
func checkRollouts(f *servertest.Fixture, ctx context.Context) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		_ = f.Services.Rollouts.Check(ctx, nil) // fails when ctx is done
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// traffic starts runs of clerk while a rollout is active, until ctx is done.
func traffic(f *servertest.Fixture, ctx context.Context) {
	for ctx.Err() == nil {
		list, _, err := f.Store.Tenant("acme").ActiveRollouts(ctx, store.Page{})
		if err != nil || len(list) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		var run api.Run
		r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: "Pay back another order"})
		if r.Status == http.StatusAccepted && json.Unmarshal(r.Body, &run) == nil {
			f.Finished(f.Acme, run.ID)
		}
	}
}
