package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Attacks of a hostile tenant on secrets and on the data of other tenants and the operator.

// A trap is a tenant's server that records the requests it receives.
type trap struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	x := &trap{}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		x.sent = append(x.sent, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header))
		x.mu.Unlock()
		http.Error(w, `{"error":{"message":"you sent `+r.Header.Get("Authorization")+`"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *trap) heard() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.sent, "\n")
}

// TestOperatorKeyIsNotSentElsewhere checks that the operator's key is not sent to any address that a
// tenant names, and is not part of a response.
func TestOperatorKeyIsNotSentElsewhere(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("x"))
	x := newTrap(t)
	f.Services.Agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{
			"policy": policy.Policy{Models: []string{"small*"}, Hosts: []string{"*", "*:*"}, Grants: []string{"*"}},
		},
		nil,
	)
	for name, file := range map[string]string{
		"mcp":      "model: {name: small}\ntools: {mcp: [{name: x, url: '" + x.URL + "', api_key_env: OPENAI_API_KEY}]}\n",
		"secret":   "model: {name: small}\nsecrets: [{name: k, env: OPENAI_API_KEY, hosts: ['127.0.0.1:*']}]\n",
		"address":  "model: {name: small}\nsecrets: [{name: k, env: OPENAI_BASE_URL, hosts: ['127.0.0.1:*']}]\n",
		"model":    "model: {name: small, base_url: '" + x.URL + "'}\n",
		"provider": "model: {name: small, provider: messages, base_url: '" + x.URL + "'}\n",
		"other":    "model: {name: small, provider: messages}\nsecrets: [{name: k, env: ANTHROPIC_API_KEY, hosts: ['127.0.0.1:*']}]\n",
		"crossed":  "model: {name: small, fallbacks: [{name: small-2, provider: messages, base_url: '" + x.URL + "', api_key_env: ANTHROPIC_API_KEY}]}\n",
		"fallback": "model: {name: small, fallbacks: [{name: small-2, base_url: '" + x.URL + "', api_key_env: OPENAI_API_KEY}]}\n",
		"inner": "model: {name: small}\nagents: [{name: inner, description: d, agent: {model: {name: small, base_url: '" + x.URL +
			"', api_key_env: OPENAI_API_KEY}}}]\n",
		"innermcp": "model: {name: small}\nagents: [{name: inner, description: d, agent: {tools: {mcp: [{name: x, url: '" + x.URL + "', api_key_env: OPENAI_API_KEY}]}}}]\n",
	} {
		require.Equal(t, 200, f.Apply(f.Acme, name, file).Status, name)
		r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"})
		require.NotContains(t, string(r.Body), servertest.OperatorsModelKey, name)
		if r.Status < 300 {
			var run api.Run
			require.NoError(t, json.Unmarshal(r.Body, &run))
			require.NotContains(t, f.Finished(f.Acme, run.ID).Error, servertest.OperatorsModelKey, name)
		}
	}
	require.NotContains(t, x.heard(), servertest.OperatorsModelKey)
}

// TestModulesUseAllowedModels checks that a tenant's module cannot change the model of a request to
// one that the policy does not allow.
func TestModulesUseAllowedModels(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	asked := scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("hello") })
	f.Services.Agents.Options.Model = asked
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"policy": policy.Policy{Models: []string{"small*"}, Grants: []string{"*"}}},
		nil,
	)
	f.Upload(f.Acme, "chooser", `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "chooser",
	beforeModel: () => ({ request: { model: "huge" } }),
});
`)
	require.Equal(t, 200, f.Apply(f.Acme, "spender", "model: {name: small}\nmiddlewares: [{module: chooser}]\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "spender", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	require.Empty(t, asked.Requests())
	require.Contains(
		t,
		string(f.OK("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil, nil).Body),
		`model \"huge\" is not one that this agent may ask`,
	)
}

// TestModelParamsFollowThePolicy checks that only the operator allows parameters that select more
// expensive models: in agent files, in requests that modules change, and in modules' own model
// calls. Parameters of API requests reach no model.
func TestModelParamsFollowThePolicy(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	asked := scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("hello") })
	f.Services.Agents.Options.Model = asked
	allow := func(p policy.Policy) {
		p.Models, p.Grants = []string{"small*"}, []string{"*"}
		f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": p}, nil)
	}
	allow(policy.Policy{})
	f.Upload(f.Acme, "changes", `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "changes",
	beforeModel: () => ({ request: { params: { temperature: 0.5, service_tier: "priority" } } }),
});
`)
	f.Upload(f.Acme, "asks", `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "asks",
	afterAgent: (_, ctx) => {
		ctx.model({ messages: [{ role: "user", content: "hi" }], params: { models: ["huge"] } });
	},
});
`)
	const file = "model: {name: small, params: {service_tier: flex, seed: 1}}\n"
	require.Contains(
		t,
		f.Apply(f.Acme, "own", file).Problem(t, 422).Detail,
		`params: the operator's policy does not allow this tenant to set the parameter "service_tier"; allowed are the usual ones, and those in params of the tenant's policy: none`,
	)
	require.Equal(
		t,
		422,
		f.Apply(
			f.Acme,
			"own",
			"model: {name: small}\nagents: [{name: b, agent: {model: {name: small, params: {Seed: 1}}}}]\n",
		).Status,
		"names are compared exactly",
	)
	events := func(agent string) string {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: agent, Input: "hi"}, &run)
		f.Finished(f.Acme, run.ID)
		return string(f.OK("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil, nil).Body)
	}
	require.Equal(t, 200, f.Apply(f.Acme, "changer", "model: {name: small}\nmiddlewares: [{module: changes}]\n").Status)
	require.Contains(t, events("changer"), `policy does not allow this tenant to set the parameter \"service_tier\"`)
	require.Empty(t, asked.Requests())
	require.Equal(
		t,
		200,
		f.Apply(f.Acme, "asker", "model: {name: small}\nmiddlewares: [{module: asks, grants: [model]}]\n").Status,
	)
	require.Contains(t, events("asker"), `policy does not allow this tenant to set the parameter \"models\"`)
	require.Len(t, asked.Requests(), 1, "the agent's own")

	allow(policy.Policy{Params: []string{"service_tier", "model*"}})
	require.Equal(t, 200, f.Apply(f.Acme, "own", file).Status)
	require.NotContains(t, events("changer")+events("asker")+events("own"), "does not allow this tenant")
	require.Equal(t, 5, len(asked.Requests()))
	require.JSONEq(t, `"flex"`, string(asked.Requests()[4].Params["service_tier"]))
	allow(policy.Policy{Params: []string{"models"}})
	require.Contains(
		t,
		f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "own", Input: "hi"}).Problem(t, 422).Detail,
		`set the parameter "service_tier"`,
	)
	require.Len(t, asked.Requests(), 5, "the policy is checked again for each run")

	require.Equal(t, 200, f.Apply(f.Acme, "plain", "model: {name: small}\n").Status)
	ask := func(name string, value any) *servertest.Reply {
		return f.Send("POST", "/v1/chat/completions", f.Acme, map[string]any{"model": "plain", name: value,
			"messages": []any{map[string]any{"role": "user", "content": "hi"}}})
	}
	for name, value := range map[string]any{"service_tier": "priority", "models": []string{"huge"}} {
		require.Contains(t, ask(name, value).Problem(t, 400).Detail, "requests to this agent may not set "+name)
	}
	require.Len(t, asked.Requests(), 5)
	require.Equal(t, 200, ask("temperature", 2).Status)
	require.Equal(t, abi.Params{"temperature": abi.JSON("2")}, asked.Requests()[5].Params)
	listed := "model: {name: small}\nrequests: {params: [service_tier]}\n"
	require.Equal(t, 200, f.Apply(f.Acme, "plain", listed).Status)
	require.Contains(t, ask("service_tier", "flex").Problem(t, 400).Detail, "the operator's policy does not allow")
	require.Contains(t, ask("temperature", 1).Problem(t, 400).Detail, "may not set temperature")
	allow(policy.Policy{Params: []string{"service_tier"}})
	require.Equal(t, 200, ask("service_tier", "flex").Status)
}

// TestKeysAreNotRepeated checks that a key is removed from responses, events, timelines and the log
// if an endpoint rejects it with an error that quotes it.
func TestKeysAreNotRepeated(t *testing.T) {
	t.Parallel()
	var log servertest.Buffer
	f := servertest.New(t, servertest.WithLog(&log))
	x := newTrap(t)
	f.Services.Agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	const key = "sk-acme-very-own-key-0123456789"
	f.OK("PUT", "/v1/secrets/OPENAI_API_KEY", f.Acme, map[string]any{"value": key}, nil)
	require.Equal(t, 200, f.Apply(f.Acme, "helper", "model: {name: small, retries: 0, base_url: '"+x.URL+"'}\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "helper", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	require.Contains(t, x.heard(), key, "the endpoint is asked with it")
	for _, path := range []string{"", "/events", "/history", "/trace"} {
		require.NotContains(t, string(f.OK("GET", "/v1/runs/"+run.ID+path, f.Acme, nil, nil).Body), key, path)
	}
	require.NotContains(t, log.String(), key)
	require.NotContains(t, string(f.OK("GET", "/metrics", f.Operator, nil, nil).Body), key)
}

// TestRingsAreHiddenInAGUI checks that AG-UI's events, which the executing server encodes, reveal
// nothing about the operator's rings. Neither do the run's events, history and timeline.
func TestRingsAreHiddenInAGUI(t *testing.T) {
	t.Parallel()
	for what, guard := range map[string]*inproc.Middleware{
		"stops": {AfterModel: func(_ context.Context, c *hook.Call, _ *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			c.Log(contract.LogWarn, "a secret thought")
			c.Emit("secret-event", json.RawMessage(`{"secret":true}`))
			return &abi.AfterModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "not here"}}}, nil
		}},
		"asks": {GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "may it?"}, nil
		}},
		"denies": {GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "no"}, nil
		}},
		"fails": {BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			panic("a secret fault")
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"guarded": func() *agent.Options {
				c, err := chain.New(hook.Entry{Name: agents.OperatorName + ".secret-guard", Ring: hook.Outer, Middleware: guard})
				require.NoError(t, err)
				o := servertest.AskingAgent()
				o.Chain = c
				return o
			}})
			_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "guarded", []byte("{}"), nil)
			require.NoError(t, err)
			r := f.Send(
				"POST",
				"/v1/agents/guarded/agui",
				f.Acme,
				[]byte(`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`),
			)
			require.Equal(t, 200, r.Status, "%s", r.Body)
			require.Contains(t, string(r.Body), "RUN_STARTED")
			require.NotContains(t, string(r.Body), "secret")
			var list struct{ Runs []api.Run }
			f.OK("GET", "/v1/runs", f.Acme, nil, &list)
			require.Len(t, list.Runs, 1)
			for _, path := range []string{"", "/events", "/history", "/trace"} {
				require.NotContains(t, string(f.OK("GET", "/v1/runs/"+list.Runs[0].ID+path, f.Acme, nil, nil).Body), "secret", path)
			}
		})
	}
}

// TestQueuedRunsAreRedacted checks that a run that is not in the store yet is redacted like a
// stored one. The client that chose its Idempotency-Key can know its id before the run is stored.
func TestQueuedRunsAreRedacted(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	l := f.Services.Runs.Active.Add("run_x", "acme", []journal.Pin{{Entry: "secret-guard", Ring: "outer"}}, func(error) {})
	info, err := f.Services.Runs.Find(t.Context(), &httpapi.Caller{Tenant: f.Store.Tenant("acme")}, l.ID)
	require.NoError(t, err)
	require.True(t, runs.NewRedactor(info.Modules).Has("a", "secret-guard"))
	_, err = f.Services.Runs.Find(t.Context(), &httpapi.Caller{Tenant: f.Store.Tenant("beta")}, l.ID)
	require.ErrorIs(t, err, journal.ErrNoRun)
}

// TestWrongKeysLookAlike checks that all wrong keys get the same problem detail, however similar
// they are to a correct key.
func TestWrongKeysLookAlike(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	known, secret, _ := strings.Cut(f.Acme[len("ar_"):], "_")
	said := map[string]bool{}
	for _, key := range []string{
		"ar_" + known + "_" + strings.Repeat("a", len(secret)), "ar_" + strings.Repeat("a", len(known)) + "_" + secret,
		"ar_" + known + "_" + secret[:len(secret)-1] + "a", "ar_" + known + "_", "ar_", f.Acme + "a",
	} {
		if key == f.Acme {
			continue
		}
		said[f.Send("GET", "/v1/keys", key, nil).Problem(t, 401).Detail] = true
	}
	require.Len(t, said, 1, "%v", said)
}

// TestIdempotencyUnderConcurrency checks that concurrent requests with one Idempotency-Key start
// one run, which counts once. Another tenant's request with the same key starts another run.
func TestIdempotencyUnderConcurrency(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 99), make(chan struct{})
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) }},
	)
	var mu sync.Mutex
	ids := map[string]map[string]bool{f.Acme: {}, f.Beta: {}}
	var wg sync.WaitGroup
	for i := range 20 {
		key := []string{f.Acme, f.Beta}[i%2]
		wg.Go(func() {
			var run api.Run
			r := f.Send("POST", "/v1/runs", key, api.StartRun{Agent: "slow", Input: "hi"}, "Idempotency-Key", "once")
			mu.Lock()
			defer mu.Unlock()
			if r.Status != 202 || json.Unmarshal(r.Body, &run) != nil {
				run.ID = string(r.Body)
			}
			ids[key][run.ID] = true
		})
	}
	wg.Wait()
	close(release)
	require.Len(t, ids[f.Acme], 1, "%v", ids)
	require.Len(t, ids[f.Beta], 1, "%v", ids)
	for key, of := range ids {
		for id := range of {
			f.Finished(key, id)
		}
		var used struct{ Total api.UsageRow }
		f.OK("GET", "/v1/usage", key, nil, &used)
		require.Equal(t, int64(1), used.Total.Runs)
	}
	for id := range ids[f.Acme] {
		f.Send("GET", "/v1/runs/"+id, f.Beta, nil).Problem(t, 404)
	}
}

// TestSameModuleOfManyTenants checks that many tenants can upload the same module concurrently, that
// each sees one module with one name, and that a tenant that did not upload it sees none.
func TestSameModuleOfManyTenants(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f := servertest.New(t)
	b := servertest.Wasm(t, "own.wasm")
	var wg sync.WaitGroup
	var same atomic.Int64
	for i := range 100 {
		id := fmt.Sprint("tenant-", i)
		_, err := f.Store.CreateTenant(t.Context(), id, id, store.TenantQuota{Modules: 1}, nil)
		require.NoError(t, err)
		key := f.Key(id, httpapi.ScopeNames(httpapi.TenantScopes)...)
		wg.Go(func() {
			r := f.PushModule(key, "?name=own&version=1", b, "application/wasm")
			var list struct{ Modules []api.Module }
			if r.Status == 200 && json.Unmarshal(f.Send("GET", "/v1/modules", key, nil).Body, &list) == nil &&
				len(list.Modules) == 1 &&
				len(list.Modules[0].Names) == 1 {
				same.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(100), same.Load())
	n, err := f.Store.DeleteUnusedModules(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
	var list struct{ Modules []api.Module }
	f.OK("GET", "/v1/modules", f.Beta, nil, &list)
	require.Empty(t, list.Modules, "other tenants do not have it")
}

// TestRejectedModulesAreNotStored checks that a module that exceeds its tenant's quota is not
// stored.
func TestRejectedModulesAreNotStored(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"modules": 1}}, nil)
	require.Equal(t, 200, f.PushModule(f.Acme, "", servertest.Wasm(t, "own.wasm"), "application/wasm").Status)
	r := f.PushModule(f.Acme, "", servertest.Wasm(t, "wrap.wasm"), "application/wasm")
	require.Equal(t, "modules", r.Problem(t, 429).Quota)
	require.NotEmpty(t, r.Header.Get("Retry-After"))
	require.Equal(
		t,
		"modules",
		f.PushModule(f.Acme, "", []byte(servertest.TypedModule), "application/typescript").Problem(t, 429).Quota,
	)
	n, err := f.Store.DeleteUnusedModules(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestModelEndpointsStayOutside checks that no request of a tenant's agent to its model or MCP
// server reaches an address in the operator's network, however the address is written.
func TestModelEndpointsStayOutside(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	x := newTrap(t)
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"policy": policy.Policy{Hosts: []string{"*", "*:*"}}},
		nil,
	)
	f.OK("PUT", "/v1/secrets/OPENAI_API_KEY", f.Acme, map[string]any{"value": "sk-acme-own"}, nil)
	port := x.URL[strings.LastIndexByte(x.URL, ':'):]
	for i, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
		"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "LOCALHOST", "169.254.169.254", "[fd00:ec2::254]",
		"100.100.100.200", "metadata.google.internal",
	} {
		for kind, file := range map[string]string{
			"model": "model: {name: small, retries: 0, base_url: 'http://" + host + port + "/v1'}\n",
			"mcp":   "model: {name: small, base_url: 'https://model.example.com'}\ntools: {mcp: [{name: x, url: 'http://" + host + port + "/mcp'}]}\n",
		} {
			name := fmt.Sprint(kind, i)
			if r := f.Apply(f.Acme, name, file); r.Status != 200 {
				r.Problem(t, 422, host)
				continue
			}
			r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"})
			if r.Status >= 300 {
				require.Equal(t, 422, r.Status, "%s: %s", host, r.Body)
				continue
			}
			var run api.Run
			require.NoError(t, json.Unmarshal(r.Body, &run))
			require.Equal(t, "error", f.Finished(f.Acme, run.ID).FinishReason, host)
		}
	}
	require.Empty(t, x.heard())
}

// TestLogsAreBounded checks that the events of a run with a module that logs 100 MB have less than
// 4 MiB.
func TestLogsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("hello"), scripted.Text("hello"))
	f.Upload(f.Acme, "talks", `import { defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "talks", afterModel(_, ctx) {
	const line = "x".repeat(100_000);
	for (let i = 0; i < 1000; i++) ctx.log.info(line);
} });`)
	require.Equal(
		t,
		200,
		f.Apply(f.Acme, "talker", "model: {name: small}\nmiddlewares: [{module: talks, on_fault: skip}]\n").Status,
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	done := f.Finished(f.Acme, run.ID)
	require.Equal(t, "hello", done.Output)
	size, after := 0, int64(0)
	for {
		r := f.OK("GET", fmt.Sprintf("/v1/runs/%s/events?after=%d", run.ID, after), f.Acme, nil, nil)
		size += len(r.Body)
		var page struct {
			Events []abi.Event
			More   bool
		}
		require.NoError(t, json.Unmarshal(r.Body, &page))
		require.NotEmpty(t, page.Events)
		after = page.Events[len(page.Events)-1].Seq
		if !page.More {
			break
		}
	}
	require.Equal(t, done.LastEvent, after)
	require.Less(t, size, 4<<20, "the size is far below 100 MB")
}

// TestTimelinesAreBounded checks that a timeline stays below 1 MiB if a model calls tools with very
// long names.
func TestTimelinesAreBounded(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	var calls []abi.ToolCall
	for i := range 8 {
		calls = append(calls, abi.NewToolCall(fmt.Sprint("c", i), strings.Repeat("n", 100_000), "{}"))
	}
	f := servertest.NewWithReplies(t, scripted.Calls(calls...), scripted.Text("done"))
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small, retries: 0}\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	require.Eventually(t, func() bool {
		r := f.OK("GET", "/v1/runs/"+run.ID+"/trace", f.Acme, nil, nil)
		require.Less(t, len(r.Body), 1<<20)
		return strings.Contains(string(r.Body), `"finish":`)
	}, time.Minute, 10*time.Millisecond)
}

// TestMetricsAreBounded checks that a flood of requests with different names adds at most 40
// Prometheus series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Text("x"), scripted.Text("x"), scripted.Text("x"))
	series := func() int {
		return strings.Count(string(f.OK("GET", "/metrics", f.Operator, nil, nil).Body), "\nagent_runner_")
	}
	flood := func(i int) {
		for _, method := range []string{"GET", "POST", fmt.Sprint("M", i)} {
			f.Send(method, fmt.Sprint("/v1/", i), f.Acme, nil, "User-Agent", fmt.Sprint(i))
			f.Send(method, fmt.Sprint("/v1/agents/agent-", i), f.Acme, nil)
			f.Send(method, fmt.Sprint("/v1/tenants/", i), fmt.Sprint("key", i), nil)
		}
		name := fmt.Sprint("agent-", i)
		f.Apply(f.Acme, name, fmt.Sprintf("model: {name: small-%d}\n", i))
		f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"})
		f.Send("POST", "/v1/chat/completions", f.Acme, map[string]any{"model": name, "messages": []any{}})
	}
	flood(0)
	flood(1)
	before := series()
	for i := range 30 {
		flood(i + 2)
	}
	require.LessOrEqual(t, series(), before+40, "names that a tenant invents get no series of their own")
}

// TestHostileModel checks that runs end, and the server stays healthy, if a tenant's model endpoint
// sends invalid or very large responses.
func TestHostileModel(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.Services.Agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	raw := func(body string) string {
		m, err := openaitest.New(
			scripted.New(
				scripted.Reply{
					Err: &openaitest.RawError{Body: body, Header: map[string]string{"Content-Type": "application/json"}},
				},
			),
		)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		return m.URL
	}
	f.OK("PUT", "/v1/secrets/"+agentfile.EnvAPIKey, f.Acme, map[string]any{"value": "sk-acme-own"}, nil)
	for i, body := range []string{strings.Repeat("[", 1<<20), `{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("x", 40<<20) + `"}}]}`,
		`{"choices":[{"message":{"role":"operator","content":"x"},"finish_reason":"` + strings.Repeat("y", 10_000) + `"}]}`, "\xff\xfe", ""} {
		name := fmt.Sprint("m", i)
		require.Equal(t, 200, f.Apply(f.Acme, name, "model: {name: small, retries: 0, base_url: '"+raw(body)+"'}\n").Status)
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"}, &run)
		f.Finished(f.Acme, run.ID)
	}
	f.OK("GET", "/healthz", "", nil, nil)
}

// TestSubAgentSteps checks that sub-agents have at most the steps that the policy allows, even if
// their file does not set a limit.
func TestSubAgentSteps(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	asked := scripted.Func(func(n int, q *model.Request) scripted.Reply {
		if q.Tools[0].Name == "inner" {
			if n == 0 {
				return scripted.Calls(abi.NewToolCall("c", "inner", `{"request":"go"}`))
			}
			return scripted.Text("done")
		}
		return scripted.Calls(abi.NewToolCall(fmt.Sprint("c", n), "time", "{}"))
	})
	f.Services.Agents.Options.Model = asked
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"policy": policy.Policy{Models: []string{"*"}, MaxSteps: 3}},
		nil,
	)
	require.Equal(
		t,
		200,
		f.Apply(
			f.Acme,
			"outer",
			"model: {name: small}\ntools: {builtin: []}\nagents: [{name: inner, description: d, agent: {tools: {builtin: [time]}}}]\n",
		).Status,
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "outer", Input: "hi"}, &run)
	require.Equal(t, "stop", f.Finished(f.Acme, run.ID).FinishReason)
	require.Equal(t, 2+3, len(asked.Requests()), "two of the outer one, three of the inner one")
}

// TestOperatorsSecondModel checks that agents with the provider messages use the operator's endpoint
// for that provider only if the policy lists their model. The endpoint may be at a private address.
func TestOperatorsSecondModel(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	var mu sync.Mutex
	var keys []string
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.URL.Path+" "+r.Header.Get("X-Api-Key"))
		_, _ = io.WriteString(
			w,
			`{"type":"message","role":"assistant","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn"}`,
		)
	}))
	defer endpoint.Close()
	f.Services.Agents.Options.Model = nil
	f.Services.Agents.Options.Getenv = func(name string) string {
		return map[string]string{
			agentfile.EnvAnthropicBaseURL: endpoint.URL, agentfile.EnvAnthropicAPIKey: servertest.OperatorsModelKey,
		}[name]
	}
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
	require.Equal(t, 200, f.Apply(f.Acme, "helper", "model: {name: small, provider: messages}\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "helper", Input: "hi"}, &run)
	require.Equal(t, "Hello.", f.Finished(f.Acme, run.ID).Output)
	require.Equal(t, []string{"/v1/messages " + servertest.OperatorsModelKey}, keys)
	require.Equal(t, 422, f.Apply(f.Acme, "large", "model: {name: large, provider: messages}\n").Status)
}
