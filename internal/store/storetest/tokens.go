package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// newToken creates a token of ann for the agent clerk.
func newToken(t *testing.T, tenant *store.Tenant, key string, limits store.TokenUsage) (k *store.Token, text string) {
	t.Helper()
	k, text, err := tenant.CreateToken(t.Context(),
		&store.Token{Issuer: key, Subject: "ann", Agents: []string{"clerk"}, Limits: limits}, time.Minute)
	require.NoError(t, err)
	return k, text
}

func testTokens(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	key, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "back end", Role: "developer"})
	require.NoError(t, err)
	expiring, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "expiring", TTL: 20 * time.Second})
	require.NoError(t, err)
	_, _, err = beta.CreateToken(ctx, &store.Token{Issuer: key.ID, Subject: "ann"}, time.Minute)
	require.ErrorIs(t, err, store.ErrNoKey, "the key of another tenant")
	_, err = acme.CreateThread(ctx, &store.Thread{ID: "hers", Subject: "ann"})
	require.NoError(t, err)
	in := &store.Token{
		Issuer:   key.ID,
		Subject:  "ann",
		Agents:   []string{"clerk", "clerk@stable"},
		Thread:   "hers",
		Threads:  true,
		Answers:  true,
		Metadata: []byte(`{"plan":"pro"}`),
		Limits:   store.TokenUsage{Runs: 2, Tokens: 100, CostNano: 5},
	}
	made, text, err := acme.CreateToken(ctx, in, time.Minute)
	require.NoError(t, err)
	require.Equal(t, time.Minute, made.Expires.Sub(made.Created))
	found, info, err := s.AuthenticateToken(ctx, text)
	require.NoError(t, err)
	require.Equal(t, made, found)
	require.Equal(t, "acme", info.ID)
	want := *in
	want.ID, want.Tenant, want.Created, want.Expires = made.ID, "acme", made.Created, made.Expires
	require.Equal(t, want, *made)
	for _, other := range []store.Token{{Subject: "bob", Thread: "hers"}, {Subject: "ann", Thread: "none"}} {
		other.Issuer = key.ID
		_, _, err = acme.CreateToken(ctx, &other, time.Minute)
		require.ErrorIs(t, err, journal.ErrNoThread)
	}
	short, _, err := acme.CreateToken(ctx, &store.Token{Issuer: expiring.ID, Subject: "bob"}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, expiring.Expires, short.Expires, "a token does not outlive its key")

	wrong := text[:len(text)-1] + string('a'+(text[len(text)-1]-'a'+1)%26)
	for _, bad := range []string{
		"", "art_", wrong, strings.Replace(text, "art_", "ar_", 1), text + "a", "art_" + made.ID + "_",
	} {
		_, _, err = s.AuthenticateToken(ctx, bad)
		var failed *store.KeyError
		require.ErrorAs(t, err, &failed, bad)
		require.Empty(t, failed.ID)
	}
	_, _, err = s.Authenticate(ctx, text)
	require.Error(t, err, "a token is no key")

	expired, gone, err := acme.CreateToken(ctx, &store.Token{Issuer: key.ID, Subject: "bob"}, -time.Second)
	require.NoError(t, err)
	_, _, err = s.AuthenticateToken(ctx, gone)
	require.ErrorContains(t, err, "expired")
	list, next, err := acme.Tokens(ctx, "", store.Page{Limit: 2})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NotNil(t, next)
	list, _, err = acme.Tokens(ctx, "bob", store.Page{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	old, _, err := acme.CreateToken(ctx, &store.Token{Issuer: key.ID, Subject: "bob"}, -time.Hour)
	require.NoError(t, err)
	requireEnded := func(want ...string) {
		t.Helper()
		ids := []string{made.ID, short.ID, expired.ID, old.ID, "unknown"}
		got, err := s.EndedTokens(ctx, ids, time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	requireEnded(old.ID, "unknown")
	none, err := s.EndedTokens(ctx, nil, 0)
	require.NoError(t, err)
	require.Empty(t, none)
	many := make([]string, 1200)
	many[700] = made.ID
	ended, err := s.EndedTokens(ctx, many, 0)
	require.NoError(t, err)
	require.Len(t, ended, 1199)
	require.ErrorIs(t, beta.DeleteToken(ctx, made.ID), store.ErrNoToken)
	n, err := beta.DeleteTokens(ctx, "bob")
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, acme.DeleteToken(ctx, expired.ID))
	n, err = acme.DeleteTokens(ctx, "bob")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	requireEnded(short.ID, expired.ID, old.ID, "unknown")

	require.NoError(t, acme.RevokeKey(ctx, key.ID))
	requireEnded(made.ID, short.ID, expired.ID, old.ID, "unknown")
	_, _, err = s.AuthenticateToken(ctx, text)
	require.ErrorContains(t, err, "the key that created it")
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	_, _, err = s.AuthenticateToken(ctx, text)
	require.ErrorContains(t, err, "unknown token")
}

func testTokenRows(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	key, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "back end"})
	require.NoError(t, err)
	ctx = store.WithActor(ctx, &store.Actor{Tenant: "acme", ID: "key:" + key.ID})
	for i := range 60 {
		_, _, err := acme.CreateToken(ctx, &store.Token{Issuer: key.ID, Subject: "ann"}, time.Minute)
		require.NoError(t, err)
		_, _, err = acme.CreateToken(ctx, &store.Token{Issuer: key.ID, Subject: fmt.Sprint(i)}, -2*time.Hour)
		require.NoError(t, err)
	}
	list, _, err := acme.Tokens(ctx, "ann", store.Page{})
	require.NoError(t, err)
	require.Len(t, list, 50, "the oldest are gone")
	n, err := s.PruneTokens(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 60, n, "the expired ones")
	all, _, err := acme.Tokens(ctx, "", store.Page{})
	require.NoError(t, err)
	require.Len(t, all, 50)
	records := actions(t, acme, &store.AuditFilter{Action: "token.create"})
	require.Equal(t, "token.create", records, "one a minute is recorded")
}

func testTokenQuotas(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	key, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "back end"})
	require.NoError(t, err)
	k, _ := newToken(t, acme, key.ID, store.TokenUsage{Runs: 3, Tokens: 100})
	start := func(n *store.Tenant, id string, by journal.EndUser) error {
		return n.Journal().Create(ctx,
			&journal.Creation{ID: id, Agent: "clerk", LeaseTTL: lease, Log: []byte("{}"), EndUser: by})
	}
	ann := journal.EndUser{Subject: "ann", Token: k.ID}

	// Two servers that start runs at the same time start as many runs together as the quota allows.
	other := again(t, where).Tenant("acme")
	var started atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			n := acme
			if i%2 == 0 {
				n = other
			}
			err := start(n, fmt.Sprint("r", i), ann)
			if err == nil {
				started.Add(1)
				return
			}
			full := (*store.QuotaError)(nil)
			require.ErrorAs(t, err, &full)
			require.Equal(t, "token_runs", full.Quota)
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, started.Load())
	require.ErrorIs(t, start(acme, "none", journal.EndUser{Subject: "ann", Token: "aaaaaaaaaa"}), store.ErrNoToken)

	// Model tokens are charged, and a run that exceeds the quota ends.
	k, _ = newToken(t, acme, key.ID, store.TokenUsage{Tokens: 100})
	ann.Token = k.ID
	require.NoError(t, start(acme, "long", ann))
	spend := func(entry, tokens int64) *journal.Commit {
		c := &journal.Commit{Run: "long", Epoch: 1, Entry: entry, Log: []byte("{}"), First: 1, LeaseTTL: lease,
			Progress: &journal.Progress{Status: journal.StatusRunning, Usage: abi.Usage{PromptTokens: tokens}}}
		require.NoError(t, s.Commit(ctx, c))
		return c
	}
	require.Nil(t, spend(2, 60).Full)
	require.Nil(t, spend(3, 100).Full)
	full := spend(4, 130).Full
	require.NotNil(t, full)
	require.Equal(t, journal.FullError{Limit: "token_tokens", Token: true, Max: 100, Used: 130}, *full)
	require.ErrorContains(t, start(acme, "more", ann), "get a new token")
	info, err := acme.Run(ctx, "long")
	require.NoError(t, err)
	require.Equal(t, ann, info.EndUser)

	// After a resume, another token of the subject is charged.
	next, _ := newToken(t, acme, key.ID, store.TokenUsage{Tokens: 1000})
	by := journal.EndUser{Subject: "ann", Token: next.ID}
	require.ErrorIs(
		t,
		acme.ResumeWithToken(ctx, "long", journal.EndUser{Subject: "bob", Token: next.ID}),
		journal.ErrNoRun,
	)
	require.Error(t, acme.ResumeWithToken(ctx, "long", ann), "its quota is used up")
	require.NoError(t, acme.ResumeWithToken(ctx, "long", by))
	require.Nil(t, spend(5, 150).Full)
	list, _, err := acme.Tokens(ctx, "ann", store.Page{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, store.TokenUsage{Tokens: 20}, list[0].Used)
	require.Equal(t, store.TokenUsage{Runs: 1, Tokens: 130}, list[1].Used)
	require.NoError(t, acme.DeleteToken(ctx, next.ID))
	require.Nil(t, spend(6, 5000).Full, "the run goes on; the tenant's quotas remain")
}

func testTokenThreads(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	key, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "back end"})
	require.NoError(t, err)
	for thread, subject := range map[string]string{"hers": "ann", "his": "bob", "own": ""} {
		_, err := acme.CreateThread(ctx, &store.Thread{ID: thread, Subject: subject})
		require.NoError(t, err)
	}
	k, _ := newToken(t, acme, key.ID, store.TokenUsage{Runs: 2})
	creation := func(id, thread string, by journal.EndUser) *journal.Creation {
		return &journal.Creation{ID: id, Agent: "clerk", LeaseTTL: lease, Log: []byte("{}"), EndUser: by,
			Thread: &journal.ThreadStart{Thread: thread}}
	}
	ann := journal.EndUser{Subject: "ann", Token: k.ID}
	for _, thread := range []string{"his", "own", "none"} {
		require.ErrorIs(t, acme.Journal().Create(ctx, creation("r", thread, ann)), journal.ErrNoThread)
		require.ErrorIs(t, acme.EnqueueRun(ctx, creation("r", thread, ann)), journal.ErrNoThread)
	}
	require.NoError(t, acme.Journal().Create(ctx, creation("tenant's", "hers", journal.EndUser{})))
	info, err := acme.Run(ctx, "tenant's")
	require.NoError(t, err)
	require.Equal(t, journal.EndUser{Subject: "ann"}, info.EndUser, "a run of her thread is hers")

	// A queued run is charged once.
	require.NoError(t, acme.EnqueueRun(ctx, creation("queued", "hers", ann)))
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "tenant's", Epoch: 1, Entry: 2, Log: []byte("{}"), First: 1,
		Progress: &journal.Progress{Status: journal.StatusFinished}}))
	info, err = acme.Run(ctx, "queued")
	require.NoError(t, err)
	require.Equal(t, ann, info.EndUser)
	require.NoError(t, acme.Journal().Create(ctx, creation("queued", "hers", info.EndUser)))
	list, _, err := acme.Tokens(ctx, "", store.Page{})
	require.NoError(t, err)
	require.EqualValues(t, 1, list[0].Used.Runs)

	// One end user cannot fill the queues of the tenant. The tenant's own runs do not count.
	_, err = acme.CreateThread(ctx, &store.Thread{ID: "served", Subject: "ann"})
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, acme.EnqueueRun(ctx, creation(fmt.Sprint("served", i), "served", journal.EndUser{})))
	}
	many, _ := newToken(t, acme, key.ID, store.TokenUsage{Runs: 100})
	var full *store.QuotaError
	queued := 0
	for i := range 40 {
		thread := fmt.Sprint("more", i/10)
		if i%10 == 0 {
			_, err := acme.CreateThread(ctx, &store.Thread{ID: thread, Subject: "ann"})
			require.NoError(t, err)
		}
		by := journal.EndUser{Subject: "ann", Token: many.ID}
		if err = acme.EnqueueRun(ctx, creation(fmt.Sprint("more", i), thread, by)); err != nil {
			break
		}
		queued++
	}
	require.ErrorAs(t, err, &full)
	require.Equal(t, []any{"queued_runs", 32}, []any{full.Quota, queued})
	require.NoError(t, acme.EnqueueRun(ctx, creation("the tenant's", "more0", journal.EndUser{})))
}

func testOrigins(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	require.NoError(t, acme.SetOrigins(ctx, []string{"https://b.example", "https://*.a.example", "https://b.example"}))
	require.NoError(t, acme.SetOrigins(ctx, []string{"https://*.a.example", "https://b.example"}), "it changes nothing")
	require.NoError(t, beta.SetOrigins(ctx, []string{"https://c.example"}))
	list, err := acme.Origins(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"https://*.a.example", "https://b.example"}, list)
	for _, tc := range []struct {
		exact, wildcard string
		acme, any       bool
	}{
		{"https://b.example", "", true, true},
		{"https://x.a.example", "https://*.a.example", true, true},
		{"https://c.example", "", false, true},
		{"https://B.example", "", false, false},
		{"", "", false, false},
	} {
		own, err := acme.HasOrigin(ctx, tc.exact, tc.wildcard)
		require.NoError(t, err)
		all, err := s.HasOrigin(ctx, tc.exact, tc.wildcard)
		require.NoError(t, err)
		require.Equal(t, []bool{tc.acme, tc.any}, []bool{own, all}, tc.exact)
	}
	require.NoError(t, acme.SetOrigins(ctx, nil))
	require.Equal(t, "cors.set cors.set", actions(t, acme, &store.AuditFilter{Action: "cors.set"}))
	require.NoError(t, beta.SetOrigins(ctx, []string{"https://d.example"}))
	require.NoError(t, s.DeleteTenant(ctx, "beta"))
	found, err := s.HasOrigin(ctx, "https://d.example", "")
	require.NoError(t, err)
	require.False(t, found)
}

func testAuditOfCommits(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	require.NoError(
		t,
		acme.Journal().Create(t.Context(), &journal.Creation{ID: "r", Agent: "a", LeaseTTL: lease, Log: []byte("{}")}),
	)
	c := &journal.Commit{Run: "r", Epoch: 1, Entry: 2, Log: []byte("{}"), First: 1, LeaseTTL: lease, Audit: &journal.Audit{
		Actor: journal.Actor{
			Tenant: "acme",
			ID:     "key:a",
		}, Action: "run.answer", Target: "r", Detail: map[string]string{"i": "approve"}}}
	for range 2 { // a commit whose result was lost is repeated
		require.NoError(t, s.Commit(context.Background(), c))
	}
	stale := *c
	stale.Epoch = 7
	require.ErrorIs(t, s.Commit(context.Background(), &stale), journal.ErrFenced)
	records, _, err := acme.AuditLog(t.Context(), &store.AuditFilter{Action: "run.answer"})
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "key:a", records[0].ID)
	require.JSONEq(t, `{"i":"approve"}`, string(records[0].Detail))
}
