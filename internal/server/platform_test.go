package server

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
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// loud is a module that changes answers to upper case, and logs.
const loud = `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "loud",
	afterModel({ response }, ctx) {
		ctx.log.info("making it loud");
		const { message } = response;
		if (typeof message.content !== "string" || message.content === "") return;
		return { response: { ...response, message: { ...message, content: message.content.toUpperCase() } } };
	},
});
`

// platform returns a fixture with an operator's model that acme may use.
func platform(t *testing.T, replies ...scripted.Reply) *fixture {
	t.Helper()
	f := newFixture(t)
	f.model(replies...)
	return f
}

// model sets the operator's model, which acme may use.
func (f *fixture) model(replies ...scripted.Reply) {
	f.t.Helper()
	f.useModel(scripted.New(replies...))
}

func (f *fixture) useModel(m model.Model) {
	t := f.t
	t.Helper()
	served, err := openaitest.New(m)
	require.NoError(t, err)
	t.Cleanup(served.Close)
	f.server.agents.Options.Getenv = func(name string) string {
		return map[string]string{agentfile.EnvBaseURL: served.URL, agentfile.EnvAPIKey: "the operator's own key"}[name]
	}
	f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
}

func (f *fixture) upload(key, name, source string) {
	f.t.Helper()
	r := f.send(
		"PUT",
		"/v1/modules?name="+name+"&version=1",
		key,
		[]byte(source),
		"Content-Type",
		"application/javascript",
	)
	require.Less(f.t, r.status, 300, "%s", r.body)
}

// TestPlatform checks that a tenant's module runs in the tenant's agent, inside the operator's
// rings, which the tenant cannot see.
func TestPlatform(t *testing.T) {
	t.Parallel()
	usage := &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	reply := scripted.Text("hello from the model")
	reply.Response.Usage = usage
	f := platform(t, reply, reply)
	f.upload(f.acme, "loud", loud)
	f.upload(f.operator, "stamp", strings.NewReplacer("loud", "stamp", ".toUpperCase()", ` + " (checked)"`).Replace(loud))
	require.Equal(t, 200, f.apply(f.operator, "rings", "model: {name: none}\nrings: {outer: [{module: stamp}]}\n").status)
	require.Equal(t, 200, f.apply(f.acme, "greeter", "model: {name: small}\nmiddlewares: [{module: loud}]\n").status)

	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	done := f.finished(f.acme, run.ID)
	require.Equal(t, "HELLO FROM THE MODEL (checked)", done.Output)
	require.Len(t, done.Modules, 1)
	require.Positive(t, done.Fuel)

	var trace struct{ Timelines []api.Timeline }
	f.ok("GET", "/v1/runs/"+run.ID+"/trace", f.acme, nil, &trace)
	require.Len(t, trace.Timelines, 1)
	var spans []string
	for _, s := range trace.Timelines[0].Spans {
		spans = append(spans, s.Kind+" "+s.Entry)
	}
	require.Equal(t, []string{"run ", "model ", "hook loud"}, spans)
	all := string(
		f.send("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil).body,
	) + string(
		f.send("GET", "/v1/runs/"+run.ID+"/history", f.acme, nil).body,
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
	f.ok("GET", "/v1/usage", f.acme, nil, &used)
	require.Len(t, used.Rows, 2)
	require.Equal(t, int64(7), used.Rows[0].Prompt)
	require.Equal(t, done.Fuel, used.Total.Fuel)
	metrics := string(f.send("GET", "/metrics", f.operator, nil).body)
	require.Contains(t, metrics, `agent_runner_run_seconds_count{outcome="stop"} 1`)
	require.Contains(t, metrics, `agent_runner_http_request_seconds_count{route="POST /v1/runs",status="2xx"} 1`)
	require.NotContains(t, metrics, "acme")

	// Another tenant has neither the model nor the module.
	f.send("PUT", "/v1/agents/greeter", f.beta, []byte("model: {name: small}\nmiddlewares: [{module: loud}]\n"), "Content-Type", "application/yaml").
		problem(t, 422)
	require.Equal(t, 200, f.apply(f.beta, "greeter", "model: {name: small}\n").status)
	require.Contains(
		t,
		f.send("POST", "/v1/runs", f.beta, api.StartRun{Agent: "greeter", Input: "hi"}).problem(t, 422).Detail,
		"no key",
	)
}

// TestTenantsEndpointGetsNoOperatorKey checks that an agent that sets its own endpoint cannot reach
// the operator's network, and that its error does not contain the operator's key.
func TestTenantsEndpointGetsNoOperatorKey(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Text("x"))
	inside := f.server.agents.Options.Getenv(agentfile.EnvBaseURL)
	require.Equal(
		t,
		200,
		f.apply(f.acme, "spy", "model: {name: small, base_url: "+inside+"}\nlimits: {max_steps: 1}\n").status,
	)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "spy", Input: "hi"}, &run)
	done := f.finished(f.acme, run.ID)
	require.Equal(t, "error", done.FinishReason)
	require.NotContains(t, done.Error, "the operator's own key")
	require.Contains(t, done.Error, "private")
}

// TestOpenAIClient checks that OpenAI's official client runs a tenant's agent.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Calls(abi.NewToolCall("1", "show", `{"text":"a"}`)), scripted.Text("done as asked"))
	f.upload(f.acme, "loud", loud)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\nmiddlewares: [{module: loud}]\n").status)
	const tools = `"tools":[{"type":"function","function":{"name":"show","parameters":{"type":"object"}}}]`
	out := npmtest.Script(
		t,
		"agentmodel/testdata/client.mjs",
		"OPENAI_URL="+f.url+"/v1",
		"OPENAI_KEY="+f.acme,
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
	f.ok("GET", "/v1/models", f.acme, nil, &models)
	require.Equal(t, "agent", models.Data[0].ID)
}

// TestAGUIClient checks that AG-UI's official client runs a tenant's agent, with a tool of the
// front end.
func TestAGUIClient(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Calls(abi.NewToolCall("1", "show", `{"text":"a"}`)), scripted.Text("done as asked"))
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	out := npmtest.Script(t, "testdata/agui.mjs", "AGUI_URL="+f.url+"/v1/agents/agent/agui", "AGUI_KEY="+f.acme)
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
	f.ok("GET", "/v1/runs", f.acme, nil, &list)
	require.Len(t, list.Runs, 1, "one run, that waited in between")
}

// TestNoMemoryForImages checks that unused agents are closed if memory for the images of an agent's
// modules is missing: first agents of the same tenant, then agents of tenants with at least as many.
// If this is not enough, the request fails and can be repeated.
func TestNoMemoryForImages(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Text("one"), scripted.Text("two"))
	for _, name := range []string{"first", "second", "third"} {
		require.Equal(t, 200, f.apply(f.acme, name, "model: {name: small}\n").status)
	}
	require.Equal(t, 200, f.apply(f.operator, "its", "model: {name: small}\n").status)
	pool := f.server.pool
	other, err := pool.Open(t.Context(), f.store.Tenant(""), agents.Spec{Agent: "its"})
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
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"}, &run)
		require.Empty(t, f.finished(f.acme, run.ID).Error)
		require.Eventually(
			t,
			func() bool { return !f.server.runs.InProgress("acme", run.ID) },
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
		o, err := pool.Open(t.Context(), f.store.Tenant("acme"), agents.Spec{Agent: name})
		require.NoError(t, err)
		held = append(held, o)
	}
	r := f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "third", Input: "hi"})
	require.Contains(t, r.problem(t, 503).Detail, "end runs, or try again")
	require.Equal(t, "60", r.header.Get("Retry-After"))
	for path, body := range map[string]string{
		"/v1/chat/completions":  `{"model":"third","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/agents/third/agui": `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`,
	} {
		r := f.send("POST", path, f.acme, []byte(body))
		require.Contains(t, r.problem(t, 503).Detail, "end runs, or try again", path)
		require.Equal(t, "60", r.header.Get("Retry-After"), path)
	}
	require.Equal(t, 3, pool.Len())

	// The agents of other tenants are evicted for a tenant that has none.
	for _, o := range held {
		o.Release()
	}
	pool.EvictTenant("acme")
	require.Equal(t, 1, pool.Len())
	room = 1
	o, err := pool.Open(t.Context(), f.store.Tenant("acme"), agents.Spec{Agent: "third"})
	require.NoError(t, err)
	o.Release()
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ok("PUT", "/v1/secrets/OPENAI_API_KEY", f.acme, map[string]any{"value": "sk-1"}, nil)
	r := f.ok("GET", "/v1/secrets", f.acme, nil, nil)
	require.Contains(t, string(r.body), "OPENAI_API_KEY")
	require.NotContains(t, string(r.body), "sk-1")
	require.NotContains(t, string(f.ok("GET", "/v1/secrets", f.beta, nil, nil).body), "OPENAI")
	f.ok("DELETE", "/v1/secrets/OPENAI_API_KEY", f.acme, nil, nil)
}
