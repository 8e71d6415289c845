package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestPlatform checks that a tenant's module runs in the tenant's agent, inside the operator's
// rings, which the tenant cannot see.
func TestPlatform(t *testing.T) {
	t.Parallel()
	usage := &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	reply := scripted.Text("hello from the model")
	reply.Response.Usage = usage
	f := servertest.NewWithReplies(t, reply, reply)
	f.Upload(f.Acme, "loud", servertest.LoudModule)
	f.Upload(
		f.Operator,
		"stamp",
		strings.NewReplacer("loud", "stamp", ".toUpperCase()", ` + " (checked)"`).Replace(servertest.LoudModule),
	)
	require.Equal(t, 200, f.Apply(f.Operator, "rings", "model: {name: none}\nrings: {outer: [{module: stamp}]}\n").Status)
	require.Equal(t, 200, f.Apply(f.Acme, "greeter", "model: {name: small}\nmiddlewares: [{module: loud}]\n").Status)

	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	done := f.Finished(f.Acme, run.ID)
	require.Equal(t, "HELLO FROM THE MODEL (checked)", done.Output)
	require.Len(t, done.Modules, 1)
	require.Positive(t, done.Fuel)

	var trace struct{ Timelines []api.Timeline }
	f.OK("GET", "/v1/runs/"+run.ID+"/trace", f.Acme, nil, &trace)
	require.Len(t, trace.Timelines, 1)
	var spans []string
	for _, s := range trace.Timelines[0].Spans {
		spans = append(spans, s.Kind+" "+s.Entry)
	}
	require.Equal(t, []string{"run ", "model ", "hook loud"}, spans)
	all := string(
		f.Send("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil).Body,
	) + string(
		f.Send("GET", "/v1/runs/"+run.ID+"/history", f.Acme, nil).Body,
	)
	require.NotContains(t, all, "stamp")
	require.Contains(t, all, "making it loud")
	require.NotContains(t, all, "the operator's own key")

	var used struct {
		Total struct {
			Runs, Fuel                             int64
			PromptTokens, CompletionTokens, WallMS int64
		}
		Rows []struct {
			Agent, Module string
			Prompt        int64 `json:"prompt_tokens"`
			Fuel          int64
		}
	}
	f.OK("GET", "/v1/usage", f.Acme, nil, &used)
	require.Len(t, used.Rows, 2)
	require.Equal(t, int64(7), used.Rows[0].Prompt)
	require.Equal(t, done.Fuel, used.Total.Fuel)
	metrics := string(f.Send("GET", "/metrics", f.Operator, nil).Body)
	require.Contains(t, metrics, `agent_runner_run_seconds_count{outcome="stop"} 1`)
	require.Contains(t, metrics, `agent_runner_http_request_seconds_count{route="POST /v1/runs",status="2xx"} 1`)
	require.NotContains(t, metrics, "acme")

	// Another tenant has neither the model nor the module.
	f.Send("PUT", "/v1/agents/greeter", f.Beta, []byte("model: {name: small}\nmiddlewares: [{module: loud}]\n"), "Content-Type", "application/yaml").
		Problem(t, 422)
	require.Equal(t, 200, f.Apply(f.Beta, "greeter", "model: {name: small}\n").Status)
	require.Contains(
		t,
		f.Send("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "greeter", Input: "hi"}).Problem(t, 422).Detail,
		"no key",
	)
}

// TestTenantsEndpointGetsNoOperatorKey checks that an agent that sets its own endpoint cannot reach
// the operator's network, and that its error does not contain the operator's key.
func TestTenantsEndpointGetsNoOperatorKey(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("x"))
	inside := f.Services.Agents.Options.Getenv(agentfile.EnvBaseURL)
	require.Equal(
		t,
		200,
		f.Apply(f.Acme, "spy", "model: {name: small, base_url: "+inside+"}\nlimits: {max_steps: 1}\n").Status,
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "spy", Input: "hi"}, &run)
	done := f.Finished(f.Acme, run.ID)
	require.Equal(t, "error", done.FinishReason)
	require.NotContains(t, done.Error, "the operator's own key")
	require.Contains(t, done.Error, "private")
}

// TestOpenAIClient checks that OpenAI's official client runs a tenant's agent.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(
		t,
		scripted.Calls(abi.NewToolCall("1", "show", `{"text":"a"}`)),
		scripted.Text("done as asked"),
	)
	f.Upload(f.Acme, "loud", servertest.LoudModule)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\nmiddlewares: [{module: loud}]\n").Status)
	const tools = `"tools":[{"type":"function","function":{"name":"show","parameters":{"type":"object"}}}]`
	out := npmtest.Script(
		t,
		"agentmodel/testdata/client.mjs",
		"OPENAI_URL="+f.URL+"/v1",
		"OPENAI_KEY="+f.Acme,
		`OPENAI_STEPS=[{"stream":true,"messages":[{"role":"user","content":"Show it"}],`+tools+`},{"results":["seen"],`+tools+`},{"model":"nobody","messages":[{"role":"user","content":"hi"}]}]`,
	)
	var lines []map[string]any
	for line := range strings.Lines(out) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		lines = append(lines, m)
	}
	require.Len(t, lines, 3, out)
	require.Equal(t, "tool_calls", lines[0]["finish_reason"])
	require.Equal(t, "DONE AS ASKED", lines[1]["message"].(map[string]any)["content"])
	require.Contains(t, lines[2]["failed"], "nobody")
	require.InDelta(t, 404, lines[2]["status"], 0)
	var models struct{ Data []gateway.Model }
	f.OK("GET", "/v1/models", f.Acme, nil, &models)
	require.Equal(t, "agent", models.Data[0].ID)
}

// TestAGUIClient checks that AG-UI's official client runs a tenant's agent, with a tool of the
// front end.
func TestAGUIClient(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(
		t,
		scripted.Calls(abi.NewToolCall("1", "show", `{"text":"a"}`)),
		scripted.Text("done as asked"),
	)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	out := npmtest.Script(t, "testdata/agui.mjs", "AGUI_URL="+f.URL+"/v1/agents/agent/agui", "AGUI_KEY="+f.Acme)
	var said struct {
		Events   []string
		Messages []struct {
			Role    string
			Content any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &said))
	require.Equal(t, "RUN_STARTED", said.Events[0])
	require.Equal(t, "RUN_FINISHED", said.Events[len(said.Events)-1])
	last := said.Messages[len(said.Messages)-1]
	require.Equal(t, "done as asked", last.Content, out)
	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs", f.Acme, nil, &list)
	require.Len(t, list.Runs, 1, "one run, that waited in between")
}

// TestNoMemoryForImages checks that unused agents are closed if memory for the images of an agent's
// modules is missing: first agents of the same tenant, then agents of tenants with at least as many.
// If this is not enough, the request fails and can be repeated.
func TestNoMemoryForImages(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("one"), scripted.Text("two"))
	for _, name := range []string{"first", "second", "third"} {
		require.Equal(t, 200, f.Apply(f.Acme, name, "model: {name: small}\n").Status)
	}
	require.Equal(t, 200, f.Apply(f.Operator, "its", "model: {name: small}\n").Status)
	pool := f.Services.Pool
	other, err := pool.Open(t.Context(), f.Store.Tenant(""), agents.Spec{Agent: "its"})
	require.NoError(t, err)
	other.Release()
	room := 2 // the other agent, and the new one
	pool.BuildAgent = func(ctx context.Context, p *agents.Plan) (*host.Agent, error) {
		if pool.Len() > room {
			return nil, &agents.NotReadyError{What: p.Spec.Agent, Err: &sandbox.ImageRoomError{Bytes: 1 << 20, All: 1 << 20}}
		}
		return pool.Build(ctx, p)
	}
	for _, name := range []string{"first", "second"} {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"}, &run)
		require.Empty(t, f.Finished(f.Acme, run.ID).Error)
		require.Eventually(
			t,
			func() bool { return !f.Services.Runs.InProgress("acme", run.ID) },
			5*time.Second,
			time.Millisecond,
		)
	}
	require.Equal(t, 2, pool.Len(), "the first is closed")

	// The agents of other tenants are not evicted for a tenant that has more agents in use than they
	// have.
	room = 3
	var held []*agents.Handle
	for _, name := range []string{"first", "second"} {
		o, err := pool.Open(t.Context(), f.Store.Tenant("acme"), agents.Spec{Agent: name})
		require.NoError(t, err)
		held = append(held, o)
	}
	r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "third", Input: "hi"})
	require.Contains(t, r.Problem(t, 503).Detail, "end runs, or try again")
	require.Equal(t, "60", r.Header.Get("Retry-After"))
	for path, body := range map[string]string{
		"/v1/chat/completions":  `{"model":"third","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/agents/third/agui": `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`,
	} {
		r := f.Send("POST", path, f.Acme, []byte(body))
		require.Contains(t, r.Problem(t, 503).Detail, "end runs, or try again", path)
		require.Equal(t, "60", r.Header.Get("Retry-After"), path)
	}
	require.Equal(t, 3, pool.Len())

	// The agents of other tenants are evicted for a tenant that has none.
	for _, o := range held {
		o.Release()
	}
	pool.EvictTenant("acme")
	require.Equal(t, 1, pool.Len())
	room = 1
	o, err := pool.Open(t.Context(), f.Store.Tenant("acme"), agents.Spec{Agent: "third"})
	require.NoError(t, err)
	o.Release()
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.OK("PUT", "/v1/secrets/OPENAI_API_KEY", f.Acme, map[string]any{"value": "sk-1"}, nil)
	r := f.OK("GET", "/v1/secrets", f.Acme, nil, nil)
	require.Contains(t, string(r.Body), "OPENAI_API_KEY")
	require.NotContains(t, string(r.Body), "sk-1")
	require.NotContains(t, string(f.OK("GET", "/v1/secrets", f.Beta, nil, nil).Body), "OPENAI")
	f.OK("DELETE", "/v1/secrets/OPENAI_API_KEY", f.Acme, nil, nil)
}
