package server_test

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestRunFilters checks the parameters of the list of runs, and that runs show their metadata.
func TestRunFilters(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	for _, input := range []string{"Refund order 4711", "Say hello"} {
		metadata := map[string]json.RawMessage{"customer": json.RawMessage(`"` + input[:3] + `"`), "n": json.RawMessage("7")}
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: input, Metadata: metadata}, &run)
		require.Equal(t, metadata, f.Finished(f.Acme, run.ID).Metadata)
	}
	now := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	for _, c := range []struct {
		query url.Values
		want  int
	}{
		{url.Values{}, 2},
		{url.Values{"status": {"paused", "finished"}, "finish_reason": {"stop"}}, 2},
		{url.Values{"status": {"paused", "running"}}, 0},
		{url.Values{"metadata[customer]": {"Ref"}}, 1},
		{url.Values{"metadata[n]": {"7"}, "metadata[customer]": {"Say"}}, 1},
		{url.Values{"metadata[n]": {"8"}}, 0},
		{url.Values{"title": {"ord 47"}}, 1},
		{url.Values{"agent": {"greeter"}, "version": {"1"}, "order": {"oldest"}}, 2},
		{url.Values{"agent": {"greeter"}, "version": {"2"}}, 0},
		{url.Values{"faults": {"true"}}, 0},
		{url.Values{"faults": {"false"}, "denials": {"false"}}, 2},
		{url.Values{"created_from": {now(-time.Hour)}, "updated_to": {now(time.Hour)}}, 2},
		{url.Values{"created_to": {now(-time.Hour)}}, 0},
		{url.Values{"module": {"sha256:" + zeros}}, 0},
	} {
		require.Len(t, listed(f, "/v1/runs", f.Acme, "runs", []string{"id"}, c.query, nil), c.want, "%v", c.query)
		require.Empty(t, listed(f, "/v1/runs", f.Beta, "runs", []string{"id"}, c.query, nil))
	}
	for query, status := range map[string]int{
		"version=1": 400, "status=unknown": 422, "metadata[a b]=x": 400, "faults=perhaps": 422, "order=random": 422,
		"created_from=yesterday": 422, "module=x": 422, "metadata=x": 422, "title=%00": 400,
		"metadata[1]=&metadata[2]=&metadata[3]=&metadata[4]=&metadata[5]=&metadata[6]=&metadata[7]=&metadata[8]=&metadata[9]=": 400,
	} {
		p := f.Send("GET", "/v1/runs?"+url.PathEscape(query), f.Acme, nil)
		if query == "title=%00" {
			p = f.Send("GET", "/v1/runs?"+query, f.Acme, nil)
		}
		p.Problem(t, status, query)
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// TestSeries checks that finished runs are counted with their cost.
func TestSeries(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		func(o *server.Options) { o.Currency = "EUR" },
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	require.Equal(t, "EUR", f.Finished(f.Acme, run.ID).Currency)
	for _, by := range []string{"all", "agent", "version"} {
		path, key := "/v1/series", f.Acme
		if by == "version" {
			path, key = "/v1/tenants/acme/series", f.Operator
		}
		var s api.Series
		f.OK("GET", path+"?bucket=day&by="+by, key, nil, &s)
		require.Equal(t, "EUR", s.Currency)
		require.Len(t, s.Groups, 1)
		require.Equal(t, by != "all", s.Groups[0].Agent == "greeter")
		require.Equal(t, by == "version", s.Groups[0].Version == 1)
		require.Equal(t, int64(1), s.Groups[0].Total.Runs)
		require.Len(t, s.Groups[0].Points, 1)
		require.Equal(t, store.Day(time.Now()), s.Groups[0].Points[0].Start.Format(time.DateOnly))
		require.GreaterOrEqual(t, s.Groups[0].Total.LatencyP95MS, s.Groups[0].Total.LatencyP50MS)
	}
	var s api.Series
	f.OK("GET", "/v1/series", f.Beta, nil, &s)
	require.Empty(t, s.Groups)
	for _, query := range []string{
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from=2020-01-01T00:00:00Z", "model=m", "version=1",
		"by=model&module=" + zeros,
	} {
		f.Send("GET", "/v1/series?"+query, f.Acme, nil).Problem(t, 400, query)
	}
	f.Send("GET", "/v1/tenants/nobody/series", f.Operator, nil).Problem(t, 404)
}
