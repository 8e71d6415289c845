package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// lists holds the lists of the API, with the field of their rows and the fields that identify a
// row. A tenant's own lists come first.
var lists = []struct {
	path, rows string
	id         []string
	operator   bool
}{
	{"/v1/runs", "runs", []string{"id"}, false},
	{"/v1/agents", "agents", []string{"name"}, false},
	{"/v1/modules", "modules", []string{"digest"}, false},
	{"/v1/threads", "threads", []string{"id"}, false},
	{"/v1/threads/thr_long/messages", "messages", []string{"id"}, false},
	{"/v1/keys", "keys", []string{"id"}, false},
	{"/v1/tokens", "tokens", []string{"id"}, false},
	{"/v1/secrets", "secrets", []string{"name"}, false},
	{"/v1/members", "members", []string{"id"}, false},
	{"/v1/audit", "records", []string{"id"}, false},
	{"/v1/usage", "rows", []string{"day", "agent", "module"}, false},
	{"/v1/tenants/acme/keys", "keys", []string{"id"}, true},
	{"/v1/tenants/acme/members", "members", []string{"id"}, true},
	{"/v1/groups", "groups", []string{"id"}, true},
	{"/v1/tenants/acme/audit", "records", []string{"id"}, true},
	{"/v1/tenants/acme/usage", "rows", []string{"day", "agent", "module"}, true},
	{"/v1/tenants", "tenants", []string{"id"}, true},
	{"/v1/blocks", "blocks", []string{"digest"}, true},
	{"/v1/quarantine", "runs", []string{"run"}, true},
}

// nestedLists holds the lists of replays and rollouts, and of items that belong to an agent or a
// replay. The tests of these items test the pages of their lists.
var nestedLists = []string{
	"/v1/agents/{agent}/aliases",
	"/v1/agents/{agent}/aliases/{alias}/moves",
	"/v1/agents/{agent}/replays",
	"/v1/agents/{agent}/rollouts",
	"/v1/replays/{replay}/runs",
	"/v1/replays",
	"/v1/rollouts",
}

// listed reads a list page by page and returns its rows' ids. If between is not nil, listed calls
// it after each page but the last, with the cursor of the next page.
func listed(f *servertest.Fixture,
	path, key, rows string,
	id []string,
	query url.Values,
	between func(cursor string),
) (ids []string) {
	f.T.Helper()
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	for {
		var page map[string]json.RawMessage
		f.OK("GET", path+"?"+q.Encode(), key, nil, &page)
		var list []map[string]any
		require.NoError(f.T, json.Unmarshal(page[rows], &list))
		for _, row := range list {
			var parts []string
			for _, field := range id {
				part, _ := row[field].(string)
				parts = append(parts, part)
			}
			ids = append(ids, strings.Join(parts, " "))
		}
		if page["next_cursor"] == nil {
			return ids
		}
		var cursor string
		require.NoError(f.T, json.Unmarshal(page["next_cursor"], &cursor))
		require.NotEqual(f.T, q.Get("cursor"), cursor)
		require.NotEmpty(f.T, list)
		if between != nil {
			between(cursor)
		}
		q.Set("cursor", cursor)
	}
}

// addRuns creates runs of a tenant without fsync, so that many begin in the same millisecond.
func addRuns(f *servertest.Fixture, tenant string, n int) {
	f.T.Helper()
	for i := range n {
		require.NoError(
			f.T,
			f.Store.Create(
				f.T.Context(),
				&journal.Creation{
					ID:     fmt.Sprintf("run_%s_%05d", tenant, i),
					Tenant: tenant,
					Agent:  fmt.Sprint("a", i%3),
					Lazy:   true,
					Log:    []byte("x"),
				},
			),
		)
	}
}

// TestListsByName checks that lists of agents, modules, keys and tenants are filtered by name.
func TestListsByName(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.Upload(f.Acme, "plain", servertest.Scripts["plain"])
	f.Upload(f.Acme, "deny", servertest.Scripts["deny"])
	for _, name := range []string{"clerk", "plainer"} {
		require.Equal(t, 200, f.Apply(f.Acme, name, "model: {name: none}\n").Status)
	}
	for path, c := range map[string]struct{ key, rows, id, name, want string }{
		"/v1/agents":            {f.Acme, "agents", "name", "LAIN", "plainer"},
		"/v1/keys":              {f.Acme, "keys", "name", "Of acme", "key of acme"},
		"/v1/tenants":           {f.Operator, "tenants", "id", "bet", "beta"},
		"/v1/tenants/beta/keys": {f.Operator, "keys", "name", "beta", "key of beta"},
	} {
		q := url.Values{"name": {c.name}}
		require.Equal(t, []string{c.want}, listed(f, path, c.key, c.rows, []string{c.id}, q, nil), path)
		q.Set("name", "nobody")
		require.Empty(t, listed(f, path, c.key, c.rows, []string{c.id}, q, nil), path)
	}
	var modules struct{ Modules []api.Module }
	f.OK("GET", "/v1/modules?name=Plai", f.Acme, nil, &modules)
	require.Len(t, modules.Modules, 1)
	require.Equal(t, "plain", modules.Modules[0].Names[0].Name)
}

// TestListsSkipNoRuns checks that the pages of thousands of runs have each run exactly once.
// With a timestamp as the cursor, runs that began in the same millisecond as the last run of a
// page were lost.
func TestListsSkipNoRuns(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	const n = 6327
	f := servertest.New(t)
	addRuns(f, "acme", n)
	addRuns(f, "beta", 10)
	for _, c := range []struct {
		query url.Values
		want  int
	}{
		{url.Values{"limit": {"50"}}, n},
		{url.Values{"limit": {"500"}}, n},
		{url.Values{"limit": {"50"}, "agent": {"a1"}}, n / 3},
		{url.Values{"limit": {"50"}, "agent": {"a1"}, "status": {"running"}}, n / 3},
		{url.Values{"limit": {"50"}, "status": {"paused"}}, 0},
	} {
		seen := map[string]bool{}
		for _, id := range listed(f, "/v1/runs", f.Acme, "runs", []string{"id"}, c.query, nil) {
			require.False(t, seen[id], "%s is listed twice", id)
			require.True(t, strings.HasPrefix(id, "run_acme_"), id)
			seen[id] = true
		}
		require.Equal(t, c.want, len(seen), "%v", c.query)
	}
}

// populateThread creates the thread thr_long of a tenant with n messages.
func populateThread(t *testing.T, f *servertest.Fixture, tenant *store.Tenant, n int) {
	t.Helper()
	_, err := tenant.CreateThread(t.Context(), &store.Thread{ID: "thr_long"})
	require.NoError(t, err)
	run := "run_long_" + tenant.ID()
	require.NoError(t, tenant.Journal().Create(t.Context(), &journal.Creation{
		ID: run, Log: []byte("x"), LeaseTTL: time.Hour, Thread: &journal.ThreadStart{Thread: "thr_long"}}))
	end := &journal.ThreadEnd{}
	for i := range n {
		end.Items = append(end.Items, fmt.Appendf(nil, `{"id":"m%d","role":"user","content":"hi"}`, i))
	}
	require.NoError(t, f.Store.Commit(t.Context(), &journal.Commit{Run: run, Epoch: 1, Entry: 1, First: 1, Thread: end,
		Progress: &journal.Progress{Status: journal.StatusFinished}}))
}

// populateLists creates at least n rows in each list of acme, beta and the operator.
func populateLists(t *testing.T, f *servertest.Fixture, n int) {
	t.Helper()
	ctx := t.Context()
	for _, id := range []string{"acme", "beta"} {
		tenant := f.Store.Tenant(id)
		for i := range n {
			name := fmt.Sprintf("n%02d", i)
			_, err := tenant.PutAgent(ctx, name, []byte("name: "+name+"\n"), nil)
			require.NoError(t, err)
			require.NoError(
				t,
				tenant.PutModule(
					ctx,
					&store.TenantModule{Digest: fmt.Sprintf("%064x", i), Kind: "wasm", Size: 1, About: []byte(`{}`)},
					name,
					"1",
				),
			)
			require.NoError(t, tenant.SetSecret(ctx, name, []byte("x")))
			_, err = tenant.AddMember(ctx, &store.Member{Email: name + "@example.com", Role: "viewer"})
			require.NoError(t, err)
			_, err = f.Store.MapGroup(ctx, name, tenant.ID(), "viewer")
			require.NoError(t, err)
			require.NoError(t, tenant.AddUsage(ctx, store.Usage{Day: store.Day(time.Now()), Agent: name, Runs: 1}))
			_, err = tenant.CreateThread(ctx, &store.Thread{ID: "thr_" + name})
			require.NoError(t, err)
			issuer := servertest.KeyID(f.Key(id, string(httpapi.RunsRead)))
			_, _, err = tenant.CreateToken(ctx, &store.Token{Issuer: issuer, Subject: name}, time.Minute)
			require.NoError(t, err)
		}
		populateThread(t, f, tenant, n)
		addRuns(f, id, n)
	}
	for i := range n {
		_, err := f.Store.CreateTenant(ctx, fmt.Sprintf("t%02d", i), "", store.TenantQuota{}, nil)
		require.NoError(t, err)
		require.NoError(t, f.Store.Block(ctx, fmt.Sprintf("%064x", i), "why"))
		info, err := f.Store.Run(ctx, fmt.Sprintf("run_beta_%05d", i))
		require.NoError(t, err)
		require.NoError(t, f.Store.Quarantine(ctx, info, &store.Evidence{Run: info.ID, Tenant: "beta", Reason: "why"}))
	}
}

// TestListsHaveCursors checks that every list has the same rows in pages of any size, and
// rejects invalid cursors and those of other lists and tenants.
func TestListsHaveCursors(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	populateLists(t, f, 5)
	cursors := map[string]string{} // cursors of acme and of the operator, by path
	for _, l := range lists {
		key := f.Acme
		if l.operator {
			key = f.Operator
		}
		whole := listed(f, l.path, key, l.rows, l.id, nil, nil)
		require.GreaterOrEqual(t, len(whole), 5, l.path)
		for _, limit := range []string{"1", "2", "3"} {
			got := listed(f,
				l.path,
				key,
				l.rows,
				l.id,
				url.Values{"limit": {limit}},
				func(cursor string) { cursors[l.path] = cursor },
			)
			require.Equal(t, whole, got, "%s in pages of %s", l.path, limit)
		}
		for _, bad := range []string{
			"x",
			"!",
			"é",
			"%00",
			"AQ",
			"0",
			strings.Repeat("A", 5000),
			cursors[l.path] + "A",
			cursors[l.path][1:],
			"B" + cursors[l.path][1:],
			base64.StdEncoding.EncodeToString([]byte("2026-01-01T00:00:00Z")),
		} {
			p := f.Send("GET", l.path+"?cursor="+url.QueryEscape(bad), key, nil).Problem(t, 400, l.path, bad)
			require.Contains(t, p.Detail, "first page", "the problem says how to continue")
			require.Equal(t, "query.cursor", p.Errors[0].Location)
		}
		for _, limit := range []string{"0", "-1", "10001", "x"} {
			f.Send("GET", l.path+"?limit="+limit, key, nil).Problem(t, 422, l.path, limit)
		}
	}
	for _, l := range lists {
		for from, cursor := range cursors {
			key := f.Acme
			if l.operator {
				key = f.Operator
			}
			want := 400
			if strings.TrimPrefix(from, "/v1/tenants/acme") == strings.TrimPrefix(l.path, "/v1/tenants/acme") ||
				strings.TrimPrefix(from, "/v1") == strings.TrimPrefix(l.path, "/v1/tenants/acme") ||
				strings.TrimPrefix(l.path, "/v1") == strings.TrimPrefix(from, "/v1/tenants/acme") {
				want = 200 // the same list of the same tenant
			}
			require.Equal(
				t,
				want,
				f.Send("GET", l.path+"?cursor="+cursor, key, nil).Status,
				"the cursor of %s at %s",
				from,
				l.path,
			)
		}
		if !l.operator {
			f.Send("GET", l.path+"?cursor="+cursors[l.path], f.Beta, nil).
				Problem(t, 400, "a cursor of another tenant at ", l.path)
		}
	}
}

// TestListsAreInTheDocument checks that all lists in the document have cursors, and are in the
// variable lists.
func TestListsAreInTheDocument(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var doc struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct {
				Name       string
				Deprecated bool
				Schema     struct {
					Minimum, Maximum float64
					Default          any
				}
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
		Components struct{ Schemas map[string]map[string]any }
	}
	f.OK("GET", "/openapi.json", "", nil, &doc)
	known, found := slices.Clone(nestedLists), []string{}
	for _, l := range lists {
		known = append(known, strings.NewReplacer("acme", "{tenant}", "thr_long", "{thread}").Replace(l.path))
	}
	for path, methods := range doc.Paths {
		op, ok := methods["get"]
		if !ok || !strings.HasPrefix(op.ID, "list-") && !strings.HasSuffix(op.ID, "-usage") ||
			strings.HasPrefix(path, "/v1/models") {
			continue // this list is OpenAI's, which has no pages
		}
		found = append(found, path)
		parameters := map[string]bool{} // whether they are deprecated
		for _, p := range op.Parameters {
			parameters[p.Name] = p.Deprecated
			if p.Name == "limit" {
				require.InDelta(t, 1, p.Schema.Minimum, 0, path)
				require.GreaterOrEqual(t, p.Schema.Maximum, p.Schema.Default, path)
				require.Positive(t, p.Schema.Default, path)
			}
		}
		require.Contains(t, parameters, "cursor", path)
		require.Contains(t, parameters, "limit", path)
		require.False(t, parameters["cursor"])
		for _, old := range []string{"before", "after"} {
			if deprecated, ok := parameters[old]; ok {
				require.True(t, deprecated, "%s of %s", old, path)
			}
		}
		answer := servertest.ResolveSchema(doc.Components.Schemas, op.Responses["200"].Content["application/json"].Schema)
		require.Contains(t, answer["properties"], "next_cursor", path)
	}
	require.ElementsMatch(t, known, found, "add new lists to the table lists")
}

// TestDeprecatedParameters checks that the parameters that preceded cursors still select rows,
// and cannot be combined with a cursor.
func TestDeprecatedParameters(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	populateLists(t, f, 5)
	all := listed(f, "/v1/agents", f.Acme, "agents", []string{"name"}, nil, nil)
	require.Equal(
		t,
		all[2:],
		listed(f, "/v1/agents", f.Acme, "agents", []string{"name"}, url.Values{"after": {"n01"}}, nil),
	)
	tenants := listed(f, "/v1/tenants", f.Operator, "tenants", []string{"id"}, url.Values{"after": {"beta"}}, nil)
	require.Equal(t, []string{"t00", "t01", "t02", "t03", "t04"}, tenants)
	hour := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	runs := listed(f, "/v1/runs", f.Acme, "runs", []string{"id"}, url.Values{"before": {hour(time.Hour)}}, nil)
	require.Len(t, runs, 5+1, "and the run of the thread")
	require.Empty(t, listed(f, "/v1/runs", f.Acme, "runs", []string{"id"}, url.Values{"before": {hour(-time.Hour)}}, nil))

	for path, key := range map[string]string{
		"/v1/agents?after=n01": f.Acme, "/v1/tenants?after=beta": f.Operator, "/v1/runs?before=" + hour(time.Hour): f.Acme,
	} {
		var page struct {
			Next string `json:"next_cursor"`
		}
		f.OK("GET", path+"&limit=2", key, nil, &page)
		require.NotEmpty(t, page.Next, "clients can switch to cursors")
		p := f.Send("GET", path+"&cursor="+page.Next, key, nil).Problem(t, 400, path)
		require.Contains(t, p.Detail, "mutually exclusive")
	}
}
