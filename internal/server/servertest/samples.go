package servertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Samples creates one resource of each kind for acme, and returns the values of path parameters by their
// names.
func Samples(t *testing.T, f *Fixture) map[string]string {
	t.Helper()
	ctx := t.Context()
	acme := f.Store.Tenant("acme")
	digest, err := f.Store.PutModule(ctx, []byte("acme's bytes"))
	require.NoError(t, err)
	require.NoError(
		t,
		acme.PutModule(
			ctx,
			&store.TenantModule{Digest: digest, Kind: "wasm", Size: 12, About: []byte(`{}`)},
			"acme-module",
			"1.0",
		),
	)
	_, err = acme.PutAgent(ctx, "acme-agent", []byte("name: acme-agent\n"), nil)
	require.NoError(t, err)
	_, err = acme.PutGateway(ctx, []byte("routes: [{protocol: chat, name: acme, models: [acme-model]}]\n"), nil)
	require.NoError(t, err)
	_, err = acme.SetAlias(ctx, "acme-agent", "acme-alias", 1, store.AliasChange{})
	require.NoError(t, err)
	_, err = acme.PutAgent(ctx, "acme-agent", []byte("name: acme-agent\ninstruction: x\n"), nil)
	require.NoError(t, err)
	_, err = acme.SetAlias(ctx, "acme-agent", "stable", 1, store.AliasChange{})
	require.NoError(t, err)
	require.NoError(
		t,
		acme.CreateRollout(ctx, &store.Rollout{ID: "ro_acme", Agent: "acme-agent", Alias: "stable", Canary: 2,
			Plan: []byte(`{"steps":[{"percent":10,"seconds":0}]}`), Percent: 10}),
	)
	require.NoError(t, acme.CreateReplay(ctx, &store.Replay{ID: "rp_acme", Agent: "acme-agent", Candidate: []byte(`{}`)},
		[]string{"run_acme"}))
	require.NoError(t, acme.SetSecret(ctx, "acme-secret", []byte("hush")))
	require.NoError(t, acme.AddUsage(ctx, store.Usage{Day: store.Day(time.Now()), Agent: "acme-agent", Runs: 1}))
	require.NoError(
		t,
		f.Store.Create(
			ctx,
			&journal.Creation{
				ID:       "run_acme",
				Tenant:   "acme",
				Agent:    "acme-agent",
				Owner:    "me",
				LeaseTTL: time.Hour,
				Log:      []byte(`{"head":{"id":"run_acme","phase":"start"},"fixed":{}}` + "\n"),
			},
		),
	)
	member, err := acme.AddMember(ctx, &store.Member{Email: "ann@acme.example", Role: string(httpapi.RoleOwner)})
	require.NoError(t, err)
	group, err := f.Store.MapGroup(ctx, "acme-group", "acme", string(httpapi.RoleViewer))
	require.NoError(t, err)
	_, err = acme.CreateThread(ctx, &store.Thread{ID: "thr_acme"})
	require.NoError(t, err)
	token, _, err := acme.CreateToken(ctx, &store.Token{Issuer: KeyID(f.Acme), Subject: "acme-user"}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, acme.SetOrigins(ctx, []string{"https://acme.example"}))
	return map[string]string{
		"token":   token.ID,
		"member":  member.ID,
		"group":   group.ID,
		"thread":  "thr_acme",
		"tenant":  "acme",
		"key":     KeyID(f.Acme),
		"digest":  digest,
		"agent":   "acme-agent",
		"module":  "acme-module",
		"version": "1",
		"run":     "run_acme",
		"secret":  "acme-secret",
		"alias":   "acme-alias",
		"replay":  "rp_acme",
		"rollout": "ro_acme",
	}
}
