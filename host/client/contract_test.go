package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// serve starts a server, and returns its address and the operator's key.
func serve(t *testing.T) (url, key string) {
	t.Helper()
	ctx := t.Context()
	keyring, err := keyring.Parse("test:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	s, err := store.Open(ctx, filepath.Join(t.TempDir(), "s.db"), &store.Options{Keyring: keyring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	h, err := host.New(ctx, &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	srv, err := server.New(&server.Options{Store: s, Host: h})
	require.NoError(t, err)
	hs := httptest.NewServer(srv)
	t.Cleanup(hs.Close)
	key, err = s.Tenant(store.Operator).
		CreateFirstKey(ctx, &store.KeyOptions{Name: "operator", Scopes: httpapi.OperatorScopes()})
	require.NoError(t, err)
	return hs.URL, key
}

// A schema is a JSON schema of the OpenAPI document.
type schema map[string]any

// A document is the server's OpenAPI document.
type document struct {
	Paths map[string]map[string]struct {
		ID          string `json:"operationId"`
		Parameters  []struct{ Name, In string }
		RequestBody *struct {
			Content map[string]struct{ Schema schema }
		} `json:"requestBody"`
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

// A sender records requests, and answers each with an empty response.
type sender struct{ requests []*http.Request }

func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	if strings.Contains(r.Header.Get("Accept"), "event-stream") && strings.Contains(r.URL.Path, "/events") {
		return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
	}
	kind, body := "application/json", "{}"
	if strings.Contains(r.Header.Get("Accept"), "event-stream") {
		kind, body = "text/event-stream", "event: module\ndata: {}\n\n"
	}
	return &http.Response{
		StatusCode: 200,
		Header:     http.Header{"Content-Type": {kind}},
		Body:       io.NopCloser(strings.NewReader(body)),
	}, nil
}

// others lists the ids of operations that the client does not support.
var others = []string{"healthz", "readyz", "openapi", "get-sign-in", "sign-in", "sign-in-callback", "sign-out"}

// A use is a call of an operation with the client.
type use struct {
	call    func(context.Context, *client.Client) error
	in, out any // types of the JSON bodies; nil if there is none
}

// uses returns a call of each operation, by operation id.
func uses() map[string]use {
	type list[T any] struct{ V T }
	one := func(_ any, err error) error { return err }
	page := func(_ any, _ string, err error) error { return err }
	second := client.Page{Cursor: "c", Limit: 3}
	return map[string]use{
		"create-tenant": {func(ctx context.Context, c *client.Client) error {
			return one(c.CreateTenant(ctx, &api.CreateTenant{ID: "x"}))
		}, api.CreateTenant{}, api.Tenant{}},
		"list-tenants": {
			func(ctx context.Context, c *client.Client) error { return page(c.Tenants(ctx, second)) },
			nil,
			list[[]*api.Tenant]{},
		},
		"get-tenant": {
			func(ctx context.Context, c *client.Client) error { return one(c.Tenant(ctx, "x")) },
			nil,
			api.Tenant{},
		},
		"update-tenant": {func(ctx context.Context, c *client.Client) error {
			return one(c.UpdateTenant(ctx, "x", &api.TenantUpdate{}))
		}, api.TenantUpdate{}, api.Tenant{}},
		"delete-tenant": {
			func(ctx context.Context, c *client.Client) error { return c.DeleteTenant(ctx, "x") },
			nil,
			nil,
		},
		"create-key": {
			func(ctx context.Context, c *client.Client) error { return one(c.CreateKey(ctx, "", &api.CreateKey{})) },
			api.CreateKey{},
			api.Key{},
		},
		"list-keys": {
			func(ctx context.Context, c *client.Client) error { return page(c.Keys(ctx, "", second)) },
			nil,
			list[[]*api.Key]{},
		},
		"rotate-key": {
			func(ctx context.Context, c *client.Client) error { return one(c.RotateKey(ctx, "", "k", time.Minute)) },
			nil,
			api.Key{},
		},
		"revoke-key": {
			func(ctx context.Context, c *client.Client) error { return c.RevokeKey(ctx, "", "k") },
			nil,
			nil,
		},
		"create-token": {
			func(ctx context.Context, c *client.Client) error { return one(c.CreateToken(ctx, &api.CreateToken{})) },
			api.CreateToken{},
			api.Token{},
		},
		"list-tokens": {
			func(ctx context.Context, c *client.Client) error { return page(c.Tokens(ctx, "", second)) },
			nil,
			list[[]*api.Token]{},
		},
		"delete-token": {
			func(ctx context.Context, c *client.Client) error { return c.DeleteToken(ctx, "k") },
			nil,
			nil,
		},
		"delete-tokens": {
			func(ctx context.Context, c *client.Client) error { return one(c.DeleteTokens(ctx, "ann")) },
			nil,
			api.DeletedTokens{},
		},
		"get-cors": {
			func(ctx context.Context, c *client.Client) error { return one(c.CORS(ctx, "")) },
			nil,
			api.CORS{},
		},
		"get-tenant-cors": {
			func(ctx context.Context, c *client.Client) error { return one(c.CORS(ctx, "x")) },
			nil,
			api.CORS{},
		},
		"set-cors": {
			func(ctx context.Context, c *client.Client) error { return one(c.SetCORS(ctx, "", nil)) },
			api.CORS{},
			api.CORS{},
		},
		"set-tenant-cors": {
			func(ctx context.Context, c *client.Client) error { return one(c.SetCORS(ctx, "x", nil)) },
			api.CORS{},
			api.CORS{},
		},
		"add-member": {func(ctx context.Context, c *client.Client) error {
			return one(c.AddMember(ctx, "", &api.AddMember{}))
		}, api.AddMember{}, api.Member{}},
		"list-members": {
			func(ctx context.Context, c *client.Client) error { return page(c.Members(ctx, "", second)) },
			nil,
			list[[]*api.Member]{},
		},
		"update-member": {func(ctx context.Context, c *client.Client) error {
			return one(c.SetMemberRole(ctx, "", "m", "viewer"))
		}, api.MemberUpdate{}, api.Member{}},
		"remove-member": {
			func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, "", "m") },
			nil,
			nil,
		},
		"add-tenant-member": {func(ctx context.Context, c *client.Client) error {
			return one(c.AddMember(ctx, "x", &api.AddMember{}))
		}, api.AddMember{}, api.Member{}},
		"list-tenant-members": {
			func(ctx context.Context, c *client.Client) error { return page(c.Members(ctx, "x", second)) },
			nil,
			list[[]*api.Member]{},
		},
		"update-tenant-member": {func(ctx context.Context, c *client.Client) error {
			return one(c.SetMemberRole(ctx, "x", "m", "viewer"))
		}, api.MemberUpdate{}, api.Member{}},
		"remove-tenant-member": {
			func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, "x", "m") },
			nil,
			nil,
		},
		"list-audit": {
			func(ctx context.Context, c *client.Client) error {
				return page(
					c.Audit(
						ctx,
						"",
						client.AuditFilter{Actor: "a", Action: "b", Target: "c", From: time.Now(), To: time.Now()},
						second,
					),
				)
			},
			nil,
			list[[]api.AuditRecord]{},
		},
		"list-tenant-audit": {
			func(ctx context.Context, c *client.Client) error {
				return page(
					c.Audit(
						ctx,
						"x",
						client.AuditFilter{Actor: "a", Action: "b", Target: "c", From: time.Now(), To: time.Now()},
						second,
					),
				)
			},
			nil,
			list[[]api.AuditRecord]{},
		},
		"export-audit": {
			func(ctx context.Context, c *client.Client) error {
				return c.ExportAudit(
					ctx,
					client.AuditFilter{Actor: "a", Action: "b", Target: "c", From: time.Now(), To: time.Now()},
					io.Discard,
				)
			},
			nil,
			nil,
		},
		"get-me": {func(ctx context.Context, c *client.Client) error { return one(c.Me(ctx)) }, nil, api.Me{}},
		"map-group": {
			func(ctx context.Context, c *client.Client) error { return one(c.MapGroup(ctx, &api.MapGroup{})) },
			api.MapGroup{},
			api.GroupRole{},
		},
		"list-groups": {
			func(ctx context.Context, c *client.Client) error { return page(c.Groups(ctx, second)) },
			nil,
			list[[]*api.GroupRole]{},
		},
		"unmap-group": {func(ctx context.Context, c *client.Client) error { return c.UnmapGroup(ctx, "g") }, nil, nil},
		"create-tenant-key": {
			func(ctx context.Context, c *client.Client) error { return one(c.CreateKey(ctx, "x", &api.CreateKey{})) },
			api.CreateKey{},
			api.Key{},
		},
		"list-tenant-keys": {
			func(ctx context.Context, c *client.Client) error { return page(c.Keys(ctx, "x", second)) },
			nil,
			list[[]*api.Key]{},
		},
		"rotate-tenant-key": {
			func(ctx context.Context, c *client.Client) error { return one(c.RotateKey(ctx, "x", "k", 0)) },
			nil,
			api.Key{},
		},
		"revoke-tenant-key": {
			func(ctx context.Context, c *client.Client) error { return c.RevokeKey(ctx, "x", "k") },
			nil,
			nil,
		},
		"block-module": {
			func(ctx context.Context, c *client.Client) error { return c.Block(ctx, "d", "why") },
			nil,
			nil,
		},
		"unblock-module": {func(ctx context.Context, c *client.Client) error { return c.Unblock(ctx, "d") }, nil, nil},
		"list-blocks": {
			func(ctx context.Context, c *client.Client) error { return page(c.Blocks(ctx, second)) },
			nil,
			list[[]api.Block]{},
		},
		"cluster-status": {
			func(ctx context.Context, c *client.Client) error { return one(c.Nodes(ctx)) },
			nil,
			struct {
				Nodes []api.Node `json:"nodes"`
			}{},
		},
		"list-quarantined": {
			func(ctx context.Context, c *client.Client) error { return page(c.Quarantined(ctx, second)) },
			nil,
			list[[]api.QuarantinedRun]{},
		},
		"release-run": {
			func(ctx context.Context, c *client.Client) error { return c.ReleaseRun(ctx, "run_x") },
			nil,
			nil,
		},
		"get-usage": {func(ctx context.Context, c *client.Client) error {
			return one(c.Usage(ctx, "", "2026-01-01", "2026-01-02", second))
		}, nil, api.Usage{}},
		"get-series": {func(ctx context.Context, c *client.Client) error {
			return one(c.Series(ctx, "", &client.SeriesQuery{Bucket: "day", By: "version", Agent: "a", Version: 1, Groups: 3,
				From: time.Unix(0, 0), To: time.Unix(1, 0)}))
		}, nil, api.Series{}},
		"get-tenant-series": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.Series(ctx, "x", &client.SeriesQuery{}))
			},
			nil,
			api.Series{},
		},
		"get-tenant-usage": {
			func(ctx context.Context, c *client.Client) error { return one(c.Usage(ctx, "x", "", "", second)) },
			nil,
			api.Usage{},
		},
		"list-aliases": {
			func(ctx context.Context, c *client.Client) error { return page(c.Aliases(ctx, "a", second)) },
			nil,
			list[[]api.Alias]{},
		},
		"set-alias": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.SetAlias(ctx, "a", "stable", 1, "why"))
			},
			nil,
			api.Alias{},
		},
		"delete-alias": {
			func(ctx context.Context, c *client.Client) error { return c.DeleteAlias(ctx, "a", "stable") },
			nil,
			nil,
		},
		"list-alias-moves": {
			func(ctx context.Context, c *client.Client) error {
				return page(c.AliasMoves(ctx, "a", "stable", second))
			},
			nil,
			list[[]api.AliasMove]{},
		},
		"start-rollout": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.StartRollout(ctx, "a", &api.StartRollout{}))
			},
			api.StartRollout{},
			api.Rollout{},
		},
		"list-rollouts": {
			func(ctx context.Context, c *client.Client) error { return page(c.Rollouts(ctx, "a", second)) },
			nil,
			list[[]api.Rollout]{},
		},
		"list-active-rollouts": {
			func(ctx context.Context, c *client.Client) error { return page(c.Rollouts(ctx, "", second)) },
			nil,
			list[[]api.Rollout]{},
		},
		"get-rollout": {
			func(ctx context.Context, c *client.Client) error { return one(c.Rollout(ctx, "ro_a")) },
			nil,
			api.Rollout{},
		},
		"rollout-history": {
			func(ctx context.Context, c *client.Client) error { return one(c.RolloutHistory(ctx, "ro_a")) },
			nil,
			api.RolloutHistory{},
		},
		"pause-rollout": {
			func(ctx context.Context, c *client.Client) error { return one(c.PauseRollout(ctx, "ro_a", "why")) },
			nil,
			api.Rollout{},
		},
		"resume-rollout": {
			func(ctx context.Context, c *client.Client) error { return one(c.ResumeRollout(ctx, "ro_a", "why")) },
			nil,
			api.Rollout{},
		},
		"promote-rollout": {
			func(ctx context.Context, c *client.Client) error { return one(c.PromoteRollout(ctx, "ro_a", "why")) },
			nil,
			api.Rollout{},
		},
		"abort-rollout": {
			func(ctx context.Context, c *client.Client) error { return one(c.AbortRollout(ctx, "ro_a", "why")) },
			nil,
			api.Rollout{},
		},
		"start-replay": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.StartReplay(ctx, "a", &api.StartReplay{}))
			},
			api.StartReplay{},
			api.Replay{},
		},
		"list-replays": {
			func(ctx context.Context, c *client.Client) error { return page(c.Replays(ctx, "a", second)) },
			nil,
			list[[]api.Replay]{},
		},
		"list-all-replays": {
			func(ctx context.Context, c *client.Client) error { return page(c.Replays(ctx, "", second)) },
			nil,
			list[[]api.Replay]{},
		},
		"get-replay": {
			func(ctx context.Context, c *client.Client) error { return one(c.Replay(ctx, "rp_a")) },
			nil,
			api.Replay{},
		},
		"list-replayed-runs": {
			func(ctx context.Context, c *client.Client) error {
				return page(c.ReplayedRuns(ctx, "rp_a", "same", second))
			},
			nil,
			list[[]api.ReplayedRun]{},
		},
		"cancel-replay": {
			func(ctx context.Context, c *client.Client) error { return one(c.CancelReplay(ctx, "rp_a")) },
			nil,
			api.Replay{},
		},
		"delete-replay": {
			func(ctx context.Context, c *client.Client) error { return c.DeleteReplay(ctx, "rp_a") },
			nil,
			nil,
		},
		"put-module": {func(ctx context.Context, c *client.Client) error {
			return one(
				c.PutModule(ctx, &client.Upload{Name: "n", Version: "1", Type: "application/wasm", Body: strings.NewReader("x")}),
			)
		}, nil, api.Module{}},
		"list-modules": {
			func(ctx context.Context, c *client.Client) error { return page(c.Modules(ctx, second)) },
			nil,
			list[[]*api.Module]{},
		},
		"get-module": {
			func(ctx context.Context, c *client.Client) error { return one(c.Module(ctx, "m")) },
			nil,
			api.Module{},
		},
		"delete-module": {func(ctx context.Context, c *client.Client) error { return c.DeleteModule(ctx, "m") }, nil, nil},
		"put-agent": {
			func(ctx context.Context, c *client.Client) error { return one(c.PutAgent(ctx, "a", []byte("{}"))) },
			nil,
			api.Agent{},
		},
		"check-agent": {
			func(ctx context.Context, c *client.Client) error { return one(c.CheckAgent(ctx, "a", []byte("{}"))) },
			nil,
			api.AgentCheck{},
		},
		"dry-run": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.DryRun(ctx, "run_1", "a", []byte("{}")))
			},
			nil,
			api.ReplayedRun{},
		},
		"list-agents": {
			func(ctx context.Context, c *client.Client) error { return page(c.Agents(ctx, second)) },
			nil,
			list[[]*api.Agent]{},
		},
		"get-agent": {
			func(ctx context.Context, c *client.Client) error { return one(c.Agent(ctx, "a", 3)) },
			nil,
			api.Agent{},
		},
		"delete-agent": {func(ctx context.Context, c *client.Client) error { return c.DeleteAgent(ctx, "a") }, nil, nil},
		"put-gateway": {
			func(ctx context.Context, c *client.Client) error { return one(c.PutGateway(ctx, []byte("{}"))) },
			nil,
			api.Gateway{},
		},
		"get-gateway": {
			func(ctx context.Context, c *client.Client) error { return one(c.Gateway(ctx, 3)) },
			nil,
			api.Gateway{},
		},
		"delete-gateway": {func(ctx context.Context, c *client.Client) error { return c.DeleteGateway(ctx) }, nil, nil},
		"put-secret":     {func(ctx context.Context, c *client.Client) error { return c.SetSecret(ctx, "s", "v") }, nil, nil},
		"list-secrets": {
			func(ctx context.Context, c *client.Client) error { return page(c.Secrets(ctx, second)) },
			nil,
			list[[]api.Secret]{},
		},
		"delete-secret": {func(ctx context.Context, c *client.Client) error { return c.DeleteSecret(ctx, "s") }, nil, nil},
		"create-run": {
			func(ctx context.Context, c *client.Client) error { return one(c.StartRun(ctx, &api.StartRun{}, "")) },
			api.StartRun{},
			api.Run{},
		},
		"list-runs": {func(ctx context.Context, c *client.Client) error {
			return page(
				c.Runs(ctx, client.RunFilter{Agent: "a", Version: 2, Thread: "thr_x", Statuses: []string{"paused", "finished"},
					FinishReason: "stop", Module: "sha256:" + strings.Repeat("0", 64), Title: "t",
					Metadata: map[string]string{"k": "v"},
					Faults:   new(bool), CreatedFrom: time.Unix(0, 0), Oldest: true}, second),
			)
		}, nil, list[[]*api.Run]{}},
		"get-run": {func(ctx context.Context, c *client.Client) error { return one(c.Run(ctx, "run_x")) }, nil, api.Run{}},
		"run-events": {func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Follow(ctx, "run_x", 3) {
				return err
			}
			_, _, err := c.Events(ctx, "run_x", 3)
			return err
		}, nil, nil},
		"run-history": {
			func(ctx context.Context, c *client.Client) error { return one(c.RunHistory(ctx, "run_x")) },
			nil,
			api.RunHistory{},
		},
		"run-trace": {
			func(ctx context.Context, c *client.Client) error { return one(c.RunTrace(ctx, "run_x")) },
			nil,
			list[[]*api.Timeline]{},
		},
		"cancel-run": {
			func(ctx context.Context, c *client.Client) error { return one(c.CancelRun(ctx, "run_x")) },
			nil,
			api.Run{},
		},
		"create-thread": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.CreateThread(ctx, &api.CreateThread{}))
			},
			api.CreateThread{},
			api.Thread{},
		},
		"list-threads": {func(ctx context.Context, c *client.Client) error {
			return page(c.Threads(ctx, client.ThreadFilter{Agent: "a", Subject: "s", Metadata: "n:v"}, second))
		}, nil, list[[]*api.Thread]{}},
		"get-thread": {
			func(ctx context.Context, c *client.Client) error { return one(c.Thread(ctx, "thr_x")) },
			nil,
			api.Thread{},
		},
		"update-thread": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.UpdateThread(ctx, "thr_x", &api.ThreadUpdate{}))
			},
			api.ThreadUpdate{},
			api.Thread{},
		},
		"delete-thread": {
			func(ctx context.Context, c *client.Client) error { return c.DeleteThread(ctx, "thr_x") },
			nil,
			nil,
		},
		"list-thread-messages": {
			func(ctx context.Context, c *client.Client) error { return page(c.ThreadMessages(ctx, "thr_x", second)) },
			nil,
			list[[]api.ThreadMessage]{},
		},
		"get-retention": {
			func(ctx context.Context, c *client.Client) error { return one(c.Retention(ctx, "")) },
			nil,
			api.Retention{},
		},
		"set-retention": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.SetRetention(ctx, "", &api.Retention{}))
			},
			api.Retention{},
			api.Retention{},
		},
		"get-tenant-retention": {
			func(ctx context.Context, c *client.Client) error { return one(c.Retention(ctx, "x")) },
			nil,
			api.Retention{},
		},
		"set-tenant-retention": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.SetRetention(ctx, "x", &api.Retention{}))
			},
			api.Retention{},
			api.Retention{},
		},
		"fork-thread": {
			func(ctx context.Context, c *client.Client) error {
				return one(c.ForkThread(ctx, "thr_x", &api.ForkThread{}))
			},
			api.ForkThread{},
			api.Thread{},
		},
		"export-thread": {
			func(ctx context.Context, c *client.Client) error { return c.ExportThread(ctx, "thr_x", io.Discard) },
			nil,
			nil,
		},
		"delete-run": {func(ctx context.Context, c *client.Client) error { return c.DeleteRun(ctx, "run_x") }, nil, nil},
	}
}

// TestContract checks that the client supports every operation under /v1 in the server's
// OpenAPI document, except those of other protocols, with its path and parameters, and that the
// client's types have the document's fields.
func TestContract(t *testing.T) {
	t.Parallel()
	url, _ := serve(t)
	res, err := http.Get(url + "/openapi.json")
	require.NoError(t, err)
	defer res.Body.Close()
	var doc document
	require.NoError(t, json.NewDecoder(res.Body).Decode(&doc))
	left := uses()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if slices.Contains(others, op.ID) || !strings.HasPrefix(path, "/v1/") || foreign(path) {
				continue
			}
			u, ok := left[op.ID]
			require.True(t, ok, "the client has no method for %s %s (%s)", method, path, op.ID)
			delete(left, op.ID)
			sent := &sender{}
			c, err := client.New("http://x", "", &client.Options{HTTP: &http.Client{Transport: sent}})
			require.NoError(t, err)
			require.NoError(t, u.call(t.Context(), c), op.ID)
			at := regexp.MustCompile(
				"^" + regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$",
			)
			require.NotEmpty(t, sent.requests, op.ID)
			for _, r := range sent.requests {
				require.Equal(t, strings.ToUpper(method), r.Method, op.ID)
				require.Regexp(t, at, r.URL.Path, op.ID)
				for name := range r.URL.Query() {
					name, _, _ = strings.Cut(name, "[") // a member of an object
					known := slices.ContainsFunc(
						op.Parameters,
						func(p struct{ Name, In string }) bool { return p.In == "query" && p.Name == name },
					)
					require.True(t, known, "%s has no parameter %s", op.ID, name)
				}
			}
			if u.in != nil {
				require.NotNil(t, op.RequestBody, op.ID)
				doc.same(t, op.ID+" body", op.RequestBody.Content["application/json"].Schema, reflect.TypeOf(u.in))
			}
			if u.out != nil {
				doc.same(t, op.ID, doc.answer(t, op.ID, op.Responses), reflect.TypeOf(u.out))
			}
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(left)), "the server has no such operations")
	doc.same(t, "problem", schema{"$ref": "#/components/schemas/Problem"}, reflect.TypeFor[api.Problem]())
}

// foreign reports whether an endpoint implements another API, such as OpenAI's.
func foreign(path string) bool {
	for _, p := range []string{"/v1/chat/", "/v1/responses", "/v1/messages", "/v1/models", "/v1/ag-ui", "/v1/agui"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return strings.Contains(path, "ag-ui") || strings.Contains(path, "agui")
}

// answer returns the schema of an operation's successful response.
func (d *document) answer(t *testing.T, id string, responses map[string]struct {
	Content map[string]struct{ Schema schema }
}) schema {
	t.Helper()
	for _, status := range []string{"200", "201", "202"} {
		if content, ok := responses[status].Content["application/json"]; ok {
			return content.Schema
		}
	}
	require.Fail(t, "the document has no answer", id)
	return nil
}

// same checks that a type agrees with a schema. The type must have the schema's kind and, if it is a
// struct, exactly the schema's fields. For json.RawMessage, same accepts any schema.
func (d *document) same(t *testing.T, at string, s schema, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if ref, ok := s["$ref"].(string); ok {
		s = d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		require.NotNil(t, s, "%s: %s", at, ref)
	}
	kind, _ := s["type"].(string)
	if kinds, ok := s["type"].([]any); ok {
		kind, _ = kinds[0].(string)
	}
	switch {
	case typ == reflect.TypeFor[json.RawMessage](), kind == "":
	case typ == reflect.TypeFor[time.Time]():
		require.Equal(t, "string", kind, at)
		require.Equal(t, "date-time", s["format"], at)
	case kind == "object" && typ.Kind() == reflect.Struct && typ.NumField() == 1 && typ.Field(0).Name == "V":
		d.wrapped(t, at, s, typ.Field(0).Type)
	case kind == "object" && typ.Kind() == reflect.Struct:
		d.fields(t, at, s, typ)
	case kind == "object":
		require.Equal(t, reflect.Map, typ.Kind(), at)
	case kind == "array":
		require.Equal(t, reflect.Slice, typ.Kind(), at)
		items, _ := s["items"].(map[string]any)
		d.same(t, at+"[]", items, typ.Elem())
	default:
		want := map[reflect.Kind]string{
			reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer", reflect.Bool: "boolean",
			reflect.Float64: "number",
		}[typ.Kind()]
		require.Equal(t, want, kind, at)
	}
}

// wrapped checks an object whose only property, except for the cursor of a list, has the given
// type.
func (d *document) wrapped(t *testing.T, at string, s schema, typ reflect.Type) {
	t.Helper()
	properties, _ := s["properties"].(map[string]any)
	properties = maps.Clone(properties)
	delete(properties, "$schema")
	if strings.HasPrefix(at, "list-") {
		require.Contains(t, properties, "next_cursor", at)
		delete(properties, "next_cursor")
	}
	require.Len(t, properties, 1, at)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		d.same(t, at+"."+name, inner, typ)
	}
}

func (d *document) fields(t *testing.T, at string, s schema, typ reflect.Type) {
	t.Helper()
	properties, _ := s["properties"].(map[string]any)
	var want, got []string
	for name := range properties {
		if name == "$schema" {
			continue
		}
		want = append(want, name)
	}
	for _, field := range reflect.VisibleFields(typ) {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		got = append(got, name)
		if p, ok := properties[name].(map[string]any); ok {
			d.same(t, at+"."+name, p, field.Type)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got, "%s: the fields of the document, and those of %s", at, typ)
}
