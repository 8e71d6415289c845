package tokens_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestModelFailuresByAudience checks which details of a failed model call each audience sees. The
// operator's log has the details of calls to the operator's model. A tenant sees the details of calls
// to its own models only. The agent's users see only the kind of failure.
func TestModelFailuresByAudience(t *testing.T) {
	t.Parallel()
	const words, short = "quota of project 12345 exceeded", "the model that the agent asks failed: it answered 403 Forbidden"
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, words), http.StatusForbidden)
	}))
	t.Cleanup(endpoint.Close)
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own model ", own), func(t *testing.T) {
			t.Parallel()
			var log servertest.Buffer
			f := servertest.New(t, servertest.WithLog(&log))
			f.Services.Agents.Options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			file := "model: {name: small, retries: 0}\n"
			if own {
				f.OK("PUT", "/v1/secrets/OPENAI_API_KEY", f.Acme, map[string]any{"value": "sk-acme-very-own-key"}, nil)
				file = "model: {name: small, retries: 0, base_url: '" + endpoint.URL + "'}\n"
			} else {
				f.Services.Agents.Options.Getenv = func(name string) string {
					return map[string]string{
						agentfile.EnvBaseURL: endpoint.URL,
						agentfile.EnvAPIKey:  servertest.OperatorsModelKey,
					}[name]
				}
				f.OK("PATCH", "/v1/tenants/acme", f.Operator,
					map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
			}
			require.Equal(t, 200, f.Apply(f.Acme, "inner", file).Status)
			require.Equal(t, 200, f.Apply(f.Acme, "helper", file).Status)

			var run api.Run
			f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "helper", Input: "hi"}, &run)
			run = *f.Finished(f.Acme, run.ID)
			tenant := run.Error
			for _, path := range []string{
				"/v1/runs", "/v1/runs/" + run.ID, "/v1/runs/" + run.ID + "/events", "/v1/runs/" + run.ID + "/history",
				"/v1/runs/" + run.ID + "/trace",
			} {
				tenant += string(f.OK("GET", path, f.Acme, nil, nil).Body)
			}
			for _, e := range f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil) {
				tenant += e.Data
			}
			users := string(
				f.Send(
					"POST",
					"/v1/agents/helper/agui",
					f.Acme,
					[]byte(`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`),
				).Body,
			)
			require.Contains(t, users, `"RUN_ERROR"`)
			chat := map[string]any{"model": "helper", "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
			users += string(f.Send("POST", "/v1/chat/completions", f.Acme, chat).Body)
			chat["stream"] = true
			users += string(f.Send("POST", "/v1/chat/completions", f.Acme, chat).Body)

			for _, private := range []string{words, endpoint.URL, endpoint.Listener.Addr().String()} {
				require.NotContains(t, users, private)
				if own {
					require.Contains(t, tenant, private)
				} else {
					require.NotContains(t, tenant, private)
					require.Contains(t, log.String(), private)
				}
			}
			require.Contains(t, users, short)
			if !own {
				require.Equal(t, short, run.Error)
			}
		})
	}
}
