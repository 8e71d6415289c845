package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testConcurrentResumes checks that the quota of concurrent runs holds when two machines resume
// many paused runs concurrently, even before the journal has the runs as running.
func testConcurrentResumes(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	newTenant(t, s, "acme", store.TenantQuota{ConcurrentRuns: 2})
	const paused = 10
	for i := range paused {
		id := fmt.Sprint("p", i)
		require.NoError(
			t,
			s.Create(ctx,
				&journal.Creation{ID: id, Tenant: "acme", Agent: "a", Owner: "me", LeaseTTL: time.Minute, Log: []byte("x")}),
		)
		require.NoError(
			t,
			s.Commit(ctx, &journal.Commit{
				Run:      id,
				Epoch:    1,
				Log:      []byte("x"),
				Entry:    2,
				First:    1,
				Progress: &journal.Progress{Status: journal.StatusPaused},
			}),
		)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var in []string
	for machine := range 2 {
		other := again(t, where).Tenant("acme")
		for i := machine; i < paused; i += 2 {
			wg.Go(func() {
				id := fmt.Sprint("p", i)
				if other.AdmitRun(ctx, id, "a", false) == nil {
					mu.Lock()
					in = append(in, id)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, in, 2)
	epochs := map[string]int64{}
	for _, id := range in {
		stored, err := s.Claim(ctx, &journal.Claim{Run: id, Epoch: 1, Owner: "me", LeaseTTL: time.Minute})
		require.NoError(t, err)
		epochs[id] = stored.Epoch
	}
	acme := s.Tenant("acme")
	require.Error(t, acme.AdmitRun(ctx, "q", "a", true))
	require.NoError(
		t,
		s.Commit(ctx, &journal.Commit{
			Run:      in[0],
			Epoch:    epochs[in[0]],
			Log:      []byte("x"),
			Entry:    3,
			First:    1,
			Progress: &journal.Progress{Status: journal.StatusFinished},
		}),
	)
	require.NoError(t, acme.AdmitRun(ctx, "q", "a", true), "a finished run does not count")
}

// testStorageQuota checks that modules, agents and secrets count against a tenant's storage
// quota.
func testStorageQuota(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{StorageBytes: 1000, Modules: 2})
	var full *store.QuotaError
	digest, err := s.PutModule(ctx, []byte("wasm"))
	require.NoError(t, err)
	require.NoError(t, acme.CheckModuleQuota(ctx, digest, 900))
	require.NoError(t,
		acme.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: "wasm", Size: 900, About: []byte("{}")}, "", ""))
	require.NoError(t, acme.CheckModuleQuota(ctx, digest, 900), "a module that the tenant has is always allowed")
	require.ErrorAs(t, acme.CheckModuleQuota(ctx, "other", 101), &full)
	_, err = acme.PutAgent(ctx, "a", make([]byte, 101), nil)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "storage_bytes", full.Quota)
	_, err = acme.PutAgent(ctx, "a", make([]byte, 90), nil)
	require.NoError(t, err)
	require.ErrorAs(t, acme.CheckModuleQuota(ctx, "other", 11), &full)
	require.ErrorAs(t, acme.SetSecret(ctx, "s", make([]byte, 30)), &full)
	require.NoError(t, acme.CheckModuleQuota(ctx, "other", 10))
}

// testRowLimits checks that a tenant cannot exceed the maximum numbers of keys, agents and
// secrets.
func testRowLimits(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	var full *store.QuotaError
	fill := func(quota string, add func(i int) error) {
		t.Helper()
		var rejected, created atomic.Int64
		concurrently := func(workers, from, to int) {
			var wg sync.WaitGroup
			for worker := range workers {
				wg.Go(func() {
					for i := from + worker; i < to; i += workers {
						if add(i) != nil {
							rejected.Add(1)
						} else {
							created.Add(1)
						}
					}
				})
			}
			wg.Wait()
		}
		concurrently(4, 0, 980)
		require.EqualValues(t, 980, created.Load())
		concurrently(16, 980, 1010)
		require.LessOrEqual(t, created.Load(), int64(1000), quota)
		require.Positive(t, rejected.Load())
		require.ErrorAs(t, add(5000), &full)
		require.Equal(t, quota, full.Quota)
	}
	fill("keys", func(int) error { _, _, err := acme.CreateKey(ctx, &store.KeyOptions{}); return err })
	fill("agents", func(i int) error { _, err := acme.PutAgent(ctx, fmt.Sprint("a", i), []byte("x"), nil); return err })
	fill("secrets", func(i int) error { return acme.SetSecret(ctx, fmt.Sprint("s", i), []byte("x")) })
	keys, _, err := acme.Keys(ctx, store.Page{Limit: 10_000})
	require.NoError(t, err)
	for _, k := range keys {
		require.NoError(t, acme.RevokeKey(ctx, k.ID))
	}
	_, _, err = acme.CreateKey(ctx, &store.KeyOptions{})
	require.NoError(t, err, "revoked keys do not count")
}

// testUnusedModules checks that modules of tenants and runs are not deleted.
func testUnusedModules(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	newTenant(t, s, "acme", store.TenantQuota{})
	var digests []string
	for _, content := range []string{"of a tenant", "of a run", "unused"} {
		d, err := s.PutModule(ctx, []byte(content))
		require.NoError(t, err)
		digests = append(digests, d)
	}
	require.NoError(t,
		s.Tenant("acme").PutModule(ctx, &store.TenantModule{Digest: digests[0], Kind: "wasm", About: []byte("{}")}, "", ""))
	require.NoError(
		t,
		s.Create(ctx, &journal.Creation{
			ID:      "r",
			Tenant:  "acme",
			Agent:   "a",
			Log:     []byte("x"),
			Modules: []journal.Pin{{Entry: "e", Digest: digests[1]}},
		}),
	)
	n, err := s.DeleteUnusedModules(ctx, -time.Hour)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	_, err = s.Module(ctx, digests[2])
	require.ErrorIs(t, err, store.ErrNoModule)
	for _, d := range digests[:2] {
		_, err = s.Module(ctx, d)
		require.NoError(t, err)
	}
}

// testStorageOfVersions checks that the storage quota counts the stored versions of agents.
func testStorageOfVersions(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	const size, versions = 10, 100
	acme := newTenant(t, s, "acme", store.TenantQuota{StorageBytes: (versions + 1) * size})
	put := func(name string, i int) error {
		_, err := acme.PutAgent(ctx, name, fmt.Appendf(nil, "%*d", size, i), nil)
		return err
	}
	for i := range versions + 20 {
		require.NoError(t, put("a", i), "the oldest version is deleted")
	}
	require.NoError(t, put("b", 0))
	var full *store.QuotaError
	require.ErrorAs(t, put("b", 1), &full)
	require.Equal(t, "storage_bytes", full.Quota)
	require.EqualValues(t, (versions+1)*size, full.Used)
	require.NoError(t, acme.DeleteAgent(ctx, "a"))
	for i := range versions {
		require.NoError(t, put("c", i))
	}
	require.ErrorAs(t, put("c", versions), &full)
}
