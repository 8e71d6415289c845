package agents_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestAgents checks that agents can be stored, shown, listed and deleted, and that a stored agent
// keeps the modules that its file named at that time.
func TestAgents(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var m api.Module
	require.NoError(
		t,
		json.Unmarshal(
			f.PushModule(f.Acme, "?name=wrap&version=1.0", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Body,
			&m,
		),
	)
	const yaml = "model: {name: gpt}\nmiddlewares:\n- module: wrap\n"
	var a, again api.Agent
	r := f.Apply(f.Acme, "helper", yaml)
	require.Equal(t, 200, r.Status, string(r.Body))
	require.NoError(t, json.Unmarshal(r.Body, &a))
	require.Equal(t, int64(1), a.Version)
	require.Equal(t, []api.Entry{{At: "middlewares[0]", Name: "wrap", Module: "wrap", Digest: m.Digest}}, a.Modules)
	require.Equal(t, yaml, a.YAML)
	f.OK("GET", "/v1/agents/helper", f.Acme, nil, &again)
	require.Equal(t, a, again)
	f.Send("DELETE", "/v1/modules/wrap", f.Acme, nil).Problem(t, 409)

	// An existing agent keeps its modules when their names get new versions.
	require.Equal(
		t,
		200,
		f.PushModule(f.Acme, "?name=wrap&version=2.0", servertest.Wasm(t, "own.wasm"), "application/wasm").Status,
	)
	file, shown, err := f.Services.Agents.Load(t.Context(), f.Store.Tenant("acme"), "helper", 0)
	require.NoError(t, err)
	require.Equal(t, m.Digest, shown.Modules[0].Digest)
	require.Equal(t, agentfile.Path(httpapi.TrimDigest(m.Digest)+".wasm"), file.Middlewares[0].Module)
	taken, release, err := f.Services.Agents.LoadModule(
		f.Store.Tenant("acme"), nil,
	)(
		t.Context(),
		"wrap",
		string(file.Middlewares[0].Module),
		host.Limits{},
	)
	require.NoError(t, err)
	require.Equal(t, httpapi.TrimDigest(m.Digest), taken.Info().Digest)
	release()
	_, _, err = f.Services.Agents.LoadModule(
		f.Store.Tenant("beta"), nil,
	)(
		t.Context(),
		"wrap",
		string(file.Middlewares[0].Module),
		host.Limits{},
	)
	require.ErrorIs(t, err, store.ErrNoModule, "other tenants cannot tell that it is loaded")
	require.NoError(t, json.Unmarshal(f.Apply(f.Acme, "helper", yaml).Body, &a))
	require.Equal(t, int64(2), a.Version, "put again it is another one")
	require.NotEqual(t, m.Digest, a.Modules[0].Digest)

	var list struct{ Agents []api.Agent }
	f.OK("GET", "/v1/agents", f.Acme, nil, &list)
	require.Len(t, list.Agents, 1)
	f.OK("GET", "/v1/agents/helper?version=1", f.Acme, nil, &a)
	f.Send("GET", "/v1/agents/helper?version=3", f.Acme, nil).Problem(t, 404)
	f.OK("DELETE", "/v1/agents/helper", f.Acme, nil, nil)
	f.Send("GET", "/v1/agents/helper", f.Acme, nil).Problem(t, 404)
}

func TestAgentIsRejected(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	require.Equal(t, 200, f.PushModule(f.Acme, "?name=wrap", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Status)
	require.Equal(t, 200, f.PushModule(f.Acme, "?name=sized", []byte(`export default { name: "sized",
		configSchema: { type: "object", properties: { n: { type: "integer" } }, additionalProperties: false }, before_agent() { return {}; } };`), "application/javascript").Status)
	for yaml, want := range map[string]string{
		"mdoel: x":                             "did you mean",
		"name: other":                          "differs from",
		"a: [":                                 "",
		"\xff":                                 "UTF-8",
		"middlewares: [{module: none}]":        "no such module",
		"middlewares: [{module: wrap@9}]":      "no such module",
		"middlewares: [{module: /etc/passwd}]": "no such module",
		"middlewares: [{module: sized, config: {n: many}}]":                            "config",
		"middlewares: [{module: wrap, grants: [model]}]":                               "policy does not allow this tenant to grant model; allowed are read:*",
		"middlewares: [{module: wrap, grants: ['http:api.example.com']}]":              "policy does not allow this tenant to grant",
		"rings: {outer: [{module: wrap}]}":                                             "only the operator",
		"tools: {root: /}":                                                             "cannot read files",
		"tools: {mcp: [{command: sh -c id}]}":                                          "cannot start programs",
		"tools: {mcp: [{url: 'http://169.254.169.254/'}]}":                             "policy does not allow this tenant to reach",
		"agents: [{name: b, file: /etc/passwd}]":                                       "cannot read files",
		"agents: [{name: b, agent: {tools: {root: /}}}]":                               "cannot read files",
		"agents: [{name: b, agent: {middlewares: [{module: wrap, grants: [store]}]}}]": "policy does not allow this tenant to grant store",
	} {
		p := f.Apply(f.Acme, "helper", yaml).Problem(t, 422, yaml)
		require.Contains(t, p.Detail, want, yaml)
	}
	f.Apply(f.Acme, "helper", strings.Repeat("#", agentfile.MaxSize+1)).Problem(t, 413)
	f.Apply(f.Acme, "Helper", "{}").Problem(t, 422)
	f.Send("GET", "/v1/agents/helper", f.Acme, nil).Problem(t, 404)
}

// TestAgentCheck checks that a file is checked as if it were stored, and that nothing is stored.
func TestAgentCheck(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	require.Equal(t, 200, f.PushModule(f.Acme, "?name=wrap", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Status)
	check := func(key, yaml string) (out api.AgentCheck) {
		t.Helper()
		r := f.Send("POST", "/v1/agents/helper/check", key, []byte(yaml), "Content-Type", "application/yaml")
		require.Equal(t, 200, r.Status, "%s", r.Body)
		require.NoError(t, json.Unmarshal(r.Body, &out))
		return out
	}
	ok := check(f.Acme, "model: {name: gpt}\nmiddlewares:\n- module: wrap\n")
	require.True(t, ok.Valid)
	require.Empty(t, ok.Errors)
	require.Len(t, ok.Modules, 1)
	require.JSONEq(t, `{"model":{"name":"gpt"},"middlewares":[{"module":"wrap"}]}`, string(ok.File))
	require.Contains(t, check(f.Acme, "{}").Warnings[0], "no model")

	for yaml, want := range map[string]api.FieldError{
		"model: {name: gpt}\nmdoel: x":            {Location: "line 2, column 1", Message: "did you mean"},
		"a: [":                                    {Message: ""},
		"middlewares:\n- module: none":            {Location: "line 2, column 3", Message: "no such module"},
		"rings: {outer: [{module: wrap}]}":        {Location: "line 1, column 1", Message: "only the operator"},
		"model: {name: 1}\nlimits: {parallel: -}": {Message: ""},
	} {
		out := check(f.Acme, yaml)
		require.False(t, out.Valid, yaml)
		require.Len(t, out.Errors, 1, yaml)
		require.Contains(t, out.Errors[0].Message, want.Message, yaml)
		if want.Location != "" {
			require.Equal(t, want.Location, out.Errors[0].Location, yaml)
		}
		require.Empty(t, out.Modules)
	}
	require.Nil(t, check(f.Acme, "a: [").File)
	require.NotNil(t, check(f.Acme, "mdoel: x").File, "an unknown key is valid YAML")
	require.Contains(t, check(f.Beta, "middlewares: [{module: wrap}]").Errors[0].Message, "no such module",
		"other tenants do not have it")
	f.Send("GET", "/v1/agents/helper", f.Acme, nil).Problem(t, 404)
	f.Send("POST", "/v1/agents/helper/check", f.Acme, []byte("\xff")).Problem(t, 422)
}

// TestPolicy checks which agents a tenant's policy accepts: their grants, hosts, models and
// max_steps.
func TestPolicy(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	require.Equal(t, 200, f.PushModule(f.Acme, "?name=wrap", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Status)
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"policy": map[string]any{"grants": []string{"store", "tool:*"},
			"hosts": []string{"*.example.com"}, "models": []string{"gpt-4*"}, "max_steps": 10}},
		nil,
	)
	for yaml, status := range map[string]int{
		"middlewares: [{module: wrap, grants: [store, 'tool:search', 'http:api.example.com']}]": 200,
		"middlewares: [{module: wrap, grants: ['http:example.com']}]":                           422,
		"middlewares: [{module: wrap, grants: ['http:*']}]":                                     422,
		"middlewares: [{module: wrap, grants: ['read:last']}]":                                  422,
		"tools: {mcp: [{url: 'https://tools.example.com/mcp'}]}":                                200,
		"tools: {mcp: [{url: 'https://tools.example.com.evil.org/mcp'}]}":                       422,
		"model: {name: gpt-4o}":                                       200,
		"model: {name: gpt-5}":                                        422,
		"model: {name: gpt-4o, fallbacks: [{name: other}]}":           422,
		"limits: {models: [other]}":                                   422,
		"limits: {max_steps: 10}":                                     200,
		"limits: {max_steps: 11}":                                     422,
		"agents: [{name: b, agent: {model: {name: gpt-4o}}}]":         200,
		"agents: [{name: b, agent: {limits: {max_steps: 11}}}]":       422,
		"agents: [{name: b, agent: {middlewares: [{module: wrap}]}}]": 200,
	} {
		r := f.Apply(f.Acme, "helper", yaml)
		require.Equal(t, status, r.Status, "%s: %s", yaml, r.Body)
	}
	r := f.Apply(f.Acme, "helper", "middlewares: [{module: wrap, grants: ['http:api.example.com']}]")
	require.Contains(t, string(r.Body), "wrap: it reads the conversation and may call api.example.com")
}

// TestStepsAreBounded checks the maximum of max_steps: 1,000 by default, and at most 100,000 with a
// policy.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	put := func(steps int) *servertest.Reply {
		return f.Apply(f.Acme, "helper", fmt.Sprintf("limits: {max_steps: %d}", steps))
	}
	require.Equal(t, 200, put(1000).Status)
	for _, steps := range []int{1001, 100_000_000} {
		require.Contains(
			t,
			put(steps).Problem(t, 422).Detail,
			fmt.Sprintf("max_steps: %d exceeds 1000, this tenant's maximum", steps),
		)
	}
	f.Send("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{MaxSteps: 100_001}}).
		Problem(t, 422)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{MaxSteps: 100_000}}, nil)
	require.Equal(t, 200, put(100_000).Status)
	put(100_001).Problem(t, 422)
	require.Contains(
		t,
		f.Apply(f.Operator, "helper", "limits: {max_steps: 100001}").Problem(t, 422).Detail,
		"max_steps: 100001 exceeds the maximum of 100000",
	)
	require.Contains(
		t,
		f.Apply(f.Acme, "helper", "limits: {timeout: 100000h}").Problem(t, 422).Detail,
		"timeout: 100000h0m0s exceeds the maximum of 720h0m0s",
	)
}

func TestAgentLimits(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	for _, key := range []string{f.Acme, f.Operator} {
		require.Equal(t, 200, f.PushModule(key, "?name=wrap", servertest.Wasm(t, "wrap.wasm"), "application/wasm").Status)
	}
	const high = "middlewares: [{module: wrap, limits: {memory: 128MiB}}]"
	require.Contains(t, f.Apply(f.Acme, "helper", high).Problem(t, 422).Detail, "limits.memory")
	require.Contains(
		t,
		f.Apply(f.Acme, "helper", "agents: [{name: b, agent: {"+high+"}}]").Problem(t, 422).Detail,
		"limits.memory",
	)
	require.Equal(t, 200, f.Apply(f.Operator, "helper", high).Status, "the operator may")
	require.Equal(t, 200, f.Apply(f.Acme, "helper", "middlewares: [{module: wrap, limits: {memory: 32MiB}}]").Status)
	// A limit that is too low for the module is rejected when the agent is stored.
	require.Contains(
		t,
		f.Apply(f.Acme, "helper", "middlewares: [{module: wrap, limits: {module_bytes: 10}}]").Problem(t, 422).Detail,
		"module",
	)
}

// TestHostsAndPorts checks which hosts and ports a policy allows for the MCP servers of a stored
// agent. The rules must equal those for requests, so that an accepted agent is not rejected later.
func TestHostsAndPorts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		allowed, asked string
		want           bool
	}{
		{"*", "https://a.example.com/", true}, {"*", "https://a.example.com:443/", true},
		{"*", "http://a.example.com:443/", false}, {"*", "https://a.example.com:8443/", false},
		{"*:*", "https://a.example.com:8443/", true}, {"*:8443", "https://a.example.com:8443/", true},
		{"*:8443", "https://a.example.com/", false}, {"*:*", "https://a.example.com/", true},
		{"a.example.com:8443", "https://A.example.com:8443/", true}, {"a.example.com:8443", "https://a.example.com/", false},
		{"*.example.com:*", "https://a.example.com:1/", true}, {"*.example.com", "https://a.example.com:1/", false},
		{"*.example.com", "https://example.com/", false}, {"[2001:db8::7]:8443", "https://[2001:db8::7]:8443/", true},
		{"[2001:db8::7]", "https://[2001:db8::7]/", true}, {"*", "https://[2001:db8::7]:8443/", false},
	} {
		u, err := url.Parse(test.asked)
		require.NoError(t, err)
		require.Equal(t, test.want, policy.CoversHost([]string{test.allowed}, policy.HostPort(u)), "%+v", test)
	}
	f := servertest.New(t)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{Hosts: []string{"*"}}}, nil)
	const at = "model: {name: m}\ntools: {mcp: [{url: 'https://tools.example.com%s/mcp'}]}\n"
	require.Equal(t, 200, f.Apply(f.Acme, "helper", fmt.Sprintf(at, "")).Status)
	require.Contains(
		t,
		f.Apply(f.Acme, "helper", fmt.Sprintf(at, ":8443")).Problem(t, 422).Detail,
		"policy does not allow this tenant to reach tools.example.com:8443; allowed are *; a host without a port is allowed at 443 of https and 80 of http alone, one with :* at all ports",
	)
	require.Contains(t, string(f.Apply(f.Acme, "helper", "").Body), "the agent has no model, and cannot run")
}
