package server

import (
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// FuzzStartRun reads bodies that begin runs or go on with them: what is taken is a
// conversation that a run can have.
func FuzzStartRun(f *testing.F) {
	for _, s := range []string{`{"agent":"a","input":"hi"}`, `{"agent":"a","version":2,"messages":[{"role":"user","content":"hi"}],"metadata":{"a":1},"disconnect":"cancel"}`,
		`{"run":"run_1","answers":{"int_1":{"approve":true}}}`, `{"agent":"a","messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}]}`,
		`{"agent":"a","input":"a","input":"b"}`, "{\"agent\":\"\xff\"}", strings.Repeat(`{"a":`, 100), `null`, `[]`, `{"agent":"a","messages":[null]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var in StartRun
		if in.read([]byte(body)) != nil || in.Run != "" {
			return
		}
		require.True(t, utf8.ValidString(body))
		messages, err := in.conversation()
		if err != nil {
			require.NotEmpty(t, problemOf(err).Detail)
			return
		}
		require.NotEmpty(t, messages)
		for _, m := range messages {
			require.NoError(t, m.Check())
			require.Empty(t, m.Origin)
		}
		b, err := abi.Marshal(messages)
		require.NoError(t, err)
		var again []abi.Message
		_, err = abi.Decode(b, &again)
		require.NoError(t, err, "what is kept can be read")
	})
}

// FuzzLastEventID reads the number of the last event that a client has.
func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{"", "0", "7", "-1", "9223372036854775807", "9223372036854775808", "1e3", "0x10", " 1", "1\x00", "٣"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, header, query string) {
		req := httptest.NewRequest("GET", "/v1/runs/run_1/events", nil)
		req.Header["Last-Event-Id"] = []string{header}
		q := req.URL.Query()
		q.Set("after", query)
		req.URL.RawQuery = q.Encode()
		n, err := lastID(req)
		if err != nil {
			require.Equal(t, 422, problemOf(err).Status)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
	})
}

// FuzzUpload finds out what came as a module, an Extism manifest among it.
func FuzzUpload(f *testing.F) {
	for _, s := range []string{"\x00asm\x01\x00\x00\x00", `{"wasm":[{"data":"AGFzbQ=="}]}`, `{"wasm":[{"data":"AGFzbQ==","hash":"00"}],"config":{"a":"b"},"memory":{"max_pages":4}}`,
		`{"wasm":[{"url":"http://169.254.169.254/"}]}`, `{"wasm":[{"path":"/etc/passwd"}]}`, `{"wasm":[]}`, "export default 1", "", " {", strings.Repeat(`{"wasm":[`, 100)} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "application/typescript; x=y")
	}
	f.Fuzz(func(t *testing.T, content []byte, kind string) {
		name, module, _, err := unwrap(content, kind)
		if err != nil {
			require.Equal(t, 422, problemOf(err).Status)
			return
		}
		require.NotEmpty(t, name)
		require.LessOrEqual(t, len(module), len(content), "nothing grows")
	})
}

// FuzzAgent reads agents as tenants put them, and looks for what reaches out of the
// tenant: what is let in names no file, no program and no ring.
func FuzzAgent(f *testing.F) {
	for _, s := range []string{"model: {name: x}\n", "tools: {root: /}", "tools: {mcp: [{name: x, command: [sh]}]}", "tools: {mcp: [{name: x, url: 'https://a.example.com/'}]}",
		"rings: {outer: [{module: a}]}", "agents: [{name: b, agent: {tools: {root: /}}}]", "agents: [{name: b, file: /etc/passwd}]",
		"middlewares: [{module: a, grants: [http:x], limits: {memory: 128MiB}}]", "a: &a [*a]", "model: {name: x, fallbacks: [{name: y, base_url: 'http://127.0.0.1'}]}"} {
		f.Add([]byte(s))
	}
	c := &Caller{Key: fuzzKey}
	f.Fuzz(func(t *testing.T, body []byte) {
		parsed, err := agentfile.Parse("a", body)
		if err != nil {
			return
		}
		if err := checkFile(parsed, c, &Policy{Hosts: []string{"*.example.com"}}, noCommands{}); err != nil {
			require.NotEmpty(t, misplaced(err).Error())
			return
		}
		var look func(*agentfile.File)
		look = func(file *agentfile.File) {
			require.Empty(t, file.Tools.Root)
			require.Empty(t, file.Rings.Outer)
			require.Empty(t, file.Rings.Inner)
			for _, s := range file.Tools.MCP {
				require.Nil(t, s.Command)
			}
			for i := range file.Agents {
				require.NotNil(t, file.Agents[i].Spec())
				look(file.Agents[i].Spec())
			}
		}
		look(parsed)
		namesEndpoint(parsed)
		takesKey(parsed)
	})
}

var fuzzKey = &store.Key{Tenant: "acme"}
