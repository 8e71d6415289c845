package server

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
	"github.com/agent-runner/agent-runner/internal/store"
)

// Attacks of a hostile tenant on secrets and on the data of other tenants and the operator.

const operatorsKey = "the operator's own key"

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
	f := platform(t, scripted.Text("x"))
	x := newTrap(t)
	f.server.agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	f.ok(
		"PATCH",
		"/v1/tenants/acme",
		f.operator,
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
		require.Equal(t, 200, f.apply(f.acme, name, file).status, name)
		r := f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"})
		require.NotContains(t, string(r.body), operatorsKey, name)
		if r.status < 300 {
			var run api.Run
			require.NoError(t, json.Unmarshal(r.body, &run))
			require.NotContains(t, f.finished(f.acme, run.ID).Error, operatorsKey, name)
		}
	}
	require.NotContains(t, x.heard(), operatorsKey)
}

// TestModulesUseAllowedModels checks that a tenant's module cannot change the model of a request to
// one that the policy does not allow.
func TestModulesUseAllowedModels(t *testing.T) {
	t.Parallel()
	f := platform(t)
	asked := scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("hello") })
	f.server.agents.Options.Model = asked
	f.ok(
		"PATCH",
		"/v1/tenants/acme",
		f.operator,
		map[string]any{"policy": policy.Policy{Models: []string{"small*"}, Grants: []string{"*"}}},
		nil,
	)
	f.upload(f.acme, "chooser", `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "chooser",
	beforeModel: () => ({ request: { model: "huge" } }),
});
`)
	require.Equal(t, 200, f.apply(f.acme, "spender", "model: {name: small}\nmiddlewares: [{module: chooser}]\n").status)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "spender", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	require.Empty(t, asked.Requests())
	require.Contains(
		t,
		string(f.ok("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil, nil).body),
		`model \"huge\" is not one that this agent may ask`,
	)
}

// TestModelParamsFollowThePolicy checks that only the operator allows parameters that select more
// expensive models: in agent files, in requests that modules change, and in modules' own model
// calls. Parameters of API requests reach no model.
func TestModelParamsFollowThePolicy(t *testing.T) {
	t.Parallel()
	f := platform(t)
	asked := scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("hello") })
	f.server.agents.Options.Model = asked
	allow := func(p policy.Policy) {
		p.Models, p.Grants = []string{"small*"}, []string{"*"}
		f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"policy": p}, nil)
	}
	allow(policy.Policy{})
	f.upload(f.acme, "changes", `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "changes",
	beforeModel: () => ({ request: { params: { temperature: 0.5, service_tier: "priority" } } }),
});
`)
	f.upload(f.acme, "asks", `import { defineMiddleware } from "@agent-runner/middleware";

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
		f.apply(f.acme, "own", file).problem(t, 422).Detail,
		`params: the operator's policy does not allow this tenant to set the parameter "service_tier"; allowed are the usual ones, and those in params of the tenant's policy: none`,
	)
	require.Equal(
		t,
		422,
		f.apply(
			f.acme,
			"own",
			"model: {name: small}\nagents: [{name: b, agent: {model: {name: small, params: {Seed: 1}}}}]\n",
		).status,
		"names are compared exactly",
	)
	events := func(agent string) string {
		var run api.Run
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: agent, Input: "hi"}, &run)
		f.finished(f.acme, run.ID)
		return string(f.ok("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil, nil).body)
	}
	require.Equal(t, 200, f.apply(f.acme, "changer", "model: {name: small}\nmiddlewares: [{module: changes}]\n").status)
	require.Contains(t, events("changer"), `policy does not allow this tenant to set the parameter \"service_tier\"`)
	require.Empty(t, asked.Requests())
	require.Equal(
		t,
		200,
		f.apply(f.acme, "asker", "model: {name: small}\nmiddlewares: [{module: asks, grants: [model]}]\n").status,
	)
	require.Contains(t, events("asker"), `policy does not allow this tenant to set the parameter \"models\"`)
	require.Len(t, asked.Requests(), 1, "the agent's own")

	allow(policy.Policy{Params: []string{"service_tier", "model*"}})
	require.Equal(t, 200, f.apply(f.acme, "own", file).status)
	require.NotContains(t, events("changer")+events("asker")+events("own"), "does not allow this tenant")
	require.Equal(t, 5, len(asked.Requests()))
	require.JSONEq(t, `"flex"`, string(asked.Requests()[4].Params["service_tier"]))
	allow(policy.Policy{Params: []string{"models"}})
	require.Contains(
		t,
		f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "own", Input: "hi"}).problem(t, 422).Detail,
		`set the parameter "service_tier"`,
	)
	require.Len(t, asked.Requests(), 5, "the policy is checked again for each run")

	require.Equal(t, 200, f.apply(f.acme, "plain", "model: {name: small}\n").status)
	ask := func(name string, value any) *reply {
		return f.send("POST", "/v1/chat/completions", f.acme, map[string]any{"model": "plain", name: value,
			"messages": []any{map[string]any{"role": "user", "content": "hi"}}})
	}
	for name, value := range map[string]any{"service_tier": "priority", "models": []string{"huge"}} {
		require.Contains(t, ask(name, value).problem(t, 400).Detail, "requests to this agent may not set "+name)
	}
	require.Len(t, asked.Requests(), 5)
	require.Equal(t, 200, ask("temperature", 2).status)
	require.Equal(t, abi.Params{"temperature": abi.JSON("2")}, asked.Requests()[5].Params)
	listed := "model: {name: small}\nrequests: {params: [service_tier]}\n"
	require.Equal(t, 200, f.apply(f.acme, "plain", listed).status)
	require.Contains(t, ask("service_tier", "flex").problem(t, 400).Detail, "the operator's policy does not allow")
	require.Contains(t, ask("temperature", 1).problem(t, 400).Detail, "may not set temperature")
	allow(policy.Policy{Params: []string{"service_tier"}})
	require.Equal(t, 200, ask("service_tier", "flex").status)
}

// TestKeysAreNotRepeated checks that a key is removed from responses, events, timelines and the log
// if an endpoint rejects it with an error that quotes it.
func TestKeysAreNotRepeated(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	f := newFixture(t, withLog(&log))
	x := newTrap(t)
	f.server.agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	const key = "sk-acme-very-own-key-0123456789"
	f.ok("PUT", "/v1/secrets/OPENAI_API_KEY", f.acme, map[string]any{"value": key}, nil)
	require.Equal(t, 200, f.apply(f.acme, "helper", "model: {name: small, retries: 0, base_url: '"+x.URL+"'}\n").status)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "helper", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	require.Contains(t, x.heard(), key, "the endpoint is asked with it")
	for _, path := range []string{"", "/events", "/history", "/trace"} {
		require.NotContains(t, string(f.ok("GET", "/v1/runs/"+run.ID+path, f.acme, nil, nil).body), key, path)
	}
	require.NotContains(t, log.String(), key)
	require.NotContains(t, string(f.ok("GET", "/metrics", f.operator, nil, nil).body), key)
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
			f, _ := runFixture(t, map[string]func() *agent.Options{"guarded": func() *agent.Options {
				c, err := chain.New(hook.Entry{Name: agents.OperatorName + ".secret-guard", Ring: hook.Outer, Middleware: guard})
				require.NoError(t, err)
				o := asks()
				o.Chain = c
				return o
			}})
			_, err := f.store.Tenant("acme").PutAgent(t.Context(), "guarded", []byte("{}"), nil)
			require.NoError(t, err)
			r := f.send(
				"POST",
				"/v1/agents/guarded/agui",
				f.acme,
				[]byte(`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`),
			)
			require.Equal(t, 200, r.status, "%s", r.body)
			require.Contains(t, string(r.body), "RUN_STARTED")
			require.NotContains(t, string(r.body), "secret")
			var list struct{ Runs []api.Run }
			f.ok("GET", "/v1/runs", f.acme, nil, &list)
			require.Len(t, list.Runs, 1)
			for _, path := range []string{"", "/events", "/history", "/trace"} {
				require.NotContains(t, string(f.ok("GET", "/v1/runs/"+list.Runs[0].ID+path, f.acme, nil, nil).body), "secret", path)
			}
		})
	}
}

// TestQueuedRunsAreRedacted checks that a run that is not in the store yet is redacted like a
// stored one. The client that chose its Idempotency-Key can know its id before the run is stored.
func TestQueuedRunsAreRedacted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l := f.server.runs.Active.Add("run_x", "acme", []journal.Pin{{Entry: "secret-guard", Ring: "outer"}}, func(error) {})
	info, err := f.server.runs.Find(t.Context(), &httpapi.Caller{Tenant: f.store.Tenant("acme")}, l.ID)
	require.NoError(t, err)
	require.True(t, runs.NewRedactor(info.Modules).Has("a", "secret-guard"))
	_, err = f.server.runs.Find(t.Context(), &httpapi.Caller{Tenant: f.store.Tenant("beta")}, l.ID)
	require.ErrorIs(t, err, journal.ErrNoRun)
}

// TestWrongKeysLookAlike checks that all wrong keys get the same problem detail, however similar
// they are to a correct key.
func TestWrongKeysLookAlike(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	known, secret, _ := strings.Cut(f.acme[len("ar_"):], "_")
	said := map[string]bool{}
	for _, key := range []string{
		"ar_" + known + "_" + strings.Repeat("a", len(secret)), "ar_" + strings.Repeat("a", len(known)) + "_" + secret,
		"ar_" + known + "_" + secret[:len(secret)-1] + "a", "ar_" + known + "_", "ar_", f.acme + "a",
	} {
		if key == f.acme {
			continue
		}
		said[f.send("GET", "/v1/keys", key, nil).problem(t, 401).Detail] = true
	}
	require.Len(t, said, 1, "%v", said)
}

// TestIdempotencyUnderConcurrency checks that concurrent requests with one Idempotency-Key start
// one run, which counts once. Another tenant's request with the same key starts another run.
func TestIdempotencyUnderConcurrency(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 99), make(chan struct{})
	f, _ := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, release) }})
	var mu sync.Mutex
	ids := map[string]map[string]bool{f.acme: {}, f.beta: {}}
	var wg sync.WaitGroup
	for i := range 20 {
		key := []string{f.acme, f.beta}[i%2]
		wg.Go(func() {
			var run api.Run
			r := f.send("POST", "/v1/runs", key, api.StartRun{Agent: "slow", Input: "hi"}, "Idempotency-Key", "once")
			mu.Lock()
			defer mu.Unlock()
			if r.status != 202 || json.Unmarshal(r.body, &run) != nil {
				run.ID = string(r.body)
			}
			ids[key][run.ID] = true
		})
	}
	wg.Wait()
	close(release)
	require.Len(t, ids[f.acme], 1, "%v", ids)
	require.Len(t, ids[f.beta], 1, "%v", ids)
	for key, of := range ids {
		for id := range of {
			f.finished(key, id)
		}
		var used struct{ Total api.UsageRow }
		f.ok("GET", "/v1/usage", key, nil, &used)
		require.Equal(t, int64(1), used.Total.Runs)
	}
	for id := range ids[f.acme] {
		f.send("GET", "/v1/runs/"+id, f.beta, nil).problem(t, 404)
	}
}

// TestSameModuleOfManyTenants checks that many tenants can upload the same module concurrently, that
// each sees one module with one name, and that a tenant that did not upload it sees none.
func TestSameModuleOfManyTenants(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f := newFixture(t)
	b := wasm(t, "own.wasm")
	var wg sync.WaitGroup
	var same atomic.Int64
	for i := range 100 {
		id := fmt.Sprint("tenant-", i)
		_, err := f.store.CreateTenant(t.Context(), id, id, store.TenantQuota{Modules: 1}, nil)
		require.NoError(t, err)
		key := f.key(id, httpapi.ScopeNames(httpapi.TenantScopes)...)
		wg.Go(func() {
			r := f.pushModule(key, "?name=own&version=1", b, "application/wasm")
			var list struct{ Modules []api.Module }
			if r.status == 200 && json.Unmarshal(f.send("GET", "/v1/modules", key, nil).body, &list) == nil &&
				len(list.Modules) == 1 &&
				len(list.Modules[0].Names) == 1 {
				same.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(100), same.Load())
	n, err := f.store.DeleteUnusedModules(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
	var list struct{ Modules []api.Module }
	f.ok("GET", "/v1/modules", f.beta, nil, &list)
	require.Empty(t, list.Modules, "other tenants do not have it")
}

// TestRejectedModulesAreNotStored checks that a module that exceeds its tenant's quota is not
// stored.
func TestRejectedModulesAreNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"quota": map[string]any{"modules": 1}}, nil)
	require.Equal(t, 200, f.pushModule(f.acme, "", wasm(t, "own.wasm"), "application/wasm").status)
	r := f.pushModule(f.acme, "", wasm(t, "wrap.wasm"), "application/wasm")
	require.Equal(t, "modules", r.problem(t, 429).Quota)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, "modules", f.pushModule(f.acme, "", []byte(script), "application/typescript").problem(t, 429).Quota)
	n, err := f.store.DeleteUnusedModules(t.Context(), -time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestModelEndpointsStayOutside checks that no request of a tenant's agent to its model or MCP
// server reaches an address in the operator's network, however the address is written.
func TestModelEndpointsStayOutside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x := newTrap(t)
	f.ok(
		"PATCH",
		"/v1/tenants/acme",
		f.operator,
		map[string]any{"policy": policy.Policy{Hosts: []string{"*", "*:*"}}},
		nil,
	)
	f.ok("PUT", "/v1/secrets/OPENAI_API_KEY", f.acme, map[string]any{"value": "sk-acme-own"}, nil)
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
			if r := f.apply(f.acme, name, file); r.status != 200 {
				r.problem(t, 422, host)
				continue
			}
			r := f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"})
			if r.status >= 300 {
				require.Equal(t, 422, r.status, "%s: %s", host, r.body)
				continue
			}
			var run api.Run
			require.NoError(t, json.Unmarshal(r.body, &run))
			require.Equal(t, "error", f.finished(f.acme, run.ID).FinishReason, host)
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
	f := platform(t, scripted.Text("hello"), scripted.Text("hello"))
	f.upload(f.acme, "talks", `import { defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "talks", afterModel(_, ctx) {
	const line = "x".repeat(100_000);
	for (let i = 0; i < 1000; i++) ctx.log.info(line);
} });`)
	require.Equal(
		t,
		200,
		f.apply(f.acme, "talker", "model: {name: small}\nmiddlewares: [{module: talks, on_fault: skip}]\n").status,
	)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	done := f.finished(f.acme, run.ID)
	require.Equal(t, "hello", done.Output)
	size, after := 0, int64(0)
	for {
		r := f.ok("GET", fmt.Sprintf("/v1/runs/%s/events?after=%d", run.ID, after), f.acme, nil, nil)
		size += len(r.body)
		var page struct {
			Events []abi.Event
			More   bool
		}
		require.NoError(t, json.Unmarshal(r.body, &page))
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
	f := platform(t, scripted.Calls(calls...), scripted.Text("done"))
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small, retries: 0}\n").status)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "agent", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	require.Eventually(t, func() bool {
		r := f.ok("GET", "/v1/runs/"+run.ID+"/trace", f.acme, nil, nil)
		require.Less(t, len(r.body), 1<<20)
		return strings.Contains(string(r.body), `"finish":`)
	}, time.Minute, 10*time.Millisecond)
}

// TestMetricsAreBounded checks that a flood of requests with different names adds at most 40
// Prometheus series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Text("x"), scripted.Text("x"), scripted.Text("x"))
	series := func() int {
		return strings.Count(string(f.ok("GET", "/metrics", f.operator, nil, nil).body), "\nagent_runner_")
	}
	flood := func(i int) {
		for _, method := range []string{"GET", "POST", fmt.Sprint("M", i)} {
			f.send(method, fmt.Sprint("/v1/", i), f.acme, nil, "User-Agent", fmt.Sprint(i))
			f.send(method, fmt.Sprint("/v1/agents/agent-", i), f.acme, nil)
			f.send(method, fmt.Sprint("/v1/tenants/", i), fmt.Sprint("key", i), nil)
		}
		name := fmt.Sprint("agent-", i)
		f.apply(f.acme, name, fmt.Sprintf("model: {name: small-%d}\n", i))
		f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"})
		f.send("POST", "/v1/chat/completions", f.acme, map[string]any{"model": name, "messages": []any{}})
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
	f := newFixture(t)
	f.server.agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
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
	f.ok("PUT", "/v1/secrets/"+agentfile.EnvAPIKey, f.acme, map[string]any{"value": "sk-acme-own"}, nil)
	for i, body := range []string{strings.Repeat("[", 1<<20), `{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("x", 40<<20) + `"}}]}`,
		`{"choices":[{"message":{"role":"operator","content":"x"},"finish_reason":"` + strings.Repeat("y", 10_000) + `"}]}`, "\xff\xfe", ""} {
		name := fmt.Sprint("m", i)
		require.Equal(t, 200, f.apply(f.acme, name, "model: {name: small, retries: 0, base_url: '"+raw(body)+"'}\n").status)
		var run api.Run
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"}, &run)
		f.finished(f.acme, run.ID)
	}
	f.ok("GET", "/healthz", "", nil, nil)
}

// TestSubAgentSteps checks that sub-agents have at most the steps that the policy allows, even if
// their file does not set a limit.
func TestSubAgentSteps(t *testing.T) {
	t.Parallel()
	f := platform(t)
	asked := scripted.Func(func(n int, q *model.Request) scripted.Reply {
		if q.Tools[0].Name == "inner" {
			if n == 0 {
				return scripted.Calls(abi.NewToolCall("c", "inner", `{"request":"go"}`))
			}
			return scripted.Text("done")
		}
		return scripted.Calls(abi.NewToolCall(fmt.Sprint("c", n), "time", "{}"))
	})
	f.server.agents.Options.Model = asked
	f.ok(
		"PATCH",
		"/v1/tenants/acme",
		f.operator,
		map[string]any{"policy": policy.Policy{Models: []string{"*"}, MaxSteps: 3}},
		nil,
	)
	require.Equal(
		t,
		200,
		f.apply(
			f.acme,
			"outer",
			"model: {name: small}\ntools: {builtin: []}\nagents: [{name: inner, description: d, agent: {tools: {builtin: [time]}}}]\n",
		).status,
	)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "outer", Input: "hi"}, &run)
	require.Equal(t, "stop", f.finished(f.acme, run.ID).FinishReason)
	require.Equal(t, 2+3, len(asked.Requests()), "two of the outer one, three of the inner one")
}

// TestOperatorsSecondModel checks that agents with the provider messages use the operator's endpoint
// for that provider only if the policy lists their model. The endpoint may be at a private address.
func TestOperatorsSecondModel(t *testing.T) {
	t.Parallel()
	f := platform(t)
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
	f.server.agents.Options.Model = nil
	f.server.agents.Options.Getenv = func(name string) string {
		return map[string]string{
			agentfile.EnvAnthropicBaseURL: endpoint.URL, agentfile.EnvAnthropicAPIKey: operatorsKey,
		}[name]
	}
	f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
	require.Equal(t, 200, f.apply(f.acme, "helper", "model: {name: small, provider: messages}\n").status)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "helper", Input: "hi"}, &run)
	require.Equal(t, "Hello.", f.finished(f.acme, run.ID).Output)
	require.Equal(t, []string{"/v1/messages " + operatorsKey}, keys)
	require.Equal(t, 422, f.apply(f.acme, "large", "model: {name: large, provider: messages}\n").status)
}
