package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// collect reads a list in pages of limit rows, and returns the result of name for each row. If
// between is not nil, collect calls it between two pages, with the position at which the first one
// ended.
func collect[T any](
	t *testing.T,
	limit int,
	between func(*store.Position),
	read func(store.Page) ([]T, *store.Position, error),
	name func(T) string,
) (names []string) {
	t.Helper()
	for p := (store.Page{Limit: limit}); ; {
		rows, next, err := read(p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(rows), limit)
		for _, r := range rows {
			names = append(names, name(r))
		}
		if next == nil {
			return names
		}
		require.NotEmpty(t, rows)
		require.Less(t, len(names), 100_000, "the pages do not end")
		p.After = next
		if between != nil {
			between(next)
		}
	}
}

// collectRuns reads a list of runs in pages of limit runs, and returns their ids. between is as for
// collect.
func collectRuns(t *testing.T, s store.Store, f store.Filter, limit int, between func(*store.Position)) []string {
	t.Helper()
	return collect(t, limit, between, func(p store.Page) ([]journal.RunInfo, *store.Position, error) {
		f.Page = p
		return s.Runs(t.Context(), &f)
	}, func(r journal.RunInfo) string { return r.ID })
}

// addRuns creates n runs of a tenant concurrently and returns their ids, which start with prefix.
func addRuns(t *testing.T, s store.Store, tenant, prefix string, n int) (ids []string) {
	t.Helper()
	var wg sync.WaitGroup
	const writers = 8
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				if err := s.Create(t.Context(), &journal.Creation{ID: fmt.Sprintf("%s%05d", prefix, i), Tenant: tenant, Agent: fmt.Sprint("a", i%2), Lazy: true, Log: []byte("x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s%05d", prefix, i))
	}
	return ids
}

// rawDatabase opens the database of a store.
func rawDatabase(t *testing.T, where string) *sql.DB {
	t.Helper()
	driver, source := "sqlite", (&url.URL{Scheme: "file", Path: where}).String()
	if strings.HasPrefix(where, "postgres://") {
		driver, source = "pgx", where
	}
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// count returns the result of a query for a number.
func count(t *testing.T, where, query string) (n int64) {
	t.Helper()
	require.NoError(t, rawDatabase(t, where).QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// roundTimes rounds the times at which runs were created to tens of milliseconds, so that several
// runs have the same time even if the database is slow.
func roundTimes(t *testing.T, where string) {
	t.Helper()
	db := rawDatabase(t, where)
	_, err := db.ExecContext(t.Context(), `UPDATE runs SET created_ms = created_ms / 10 * 10`)
	require.NoError(t, err)
}

// testPagesOfRuns checks that pages list each run once, even if a page ends between runs of the
// same millisecond.
func testPagesOfRuns(t *testing.T, open Opener) {
	s, where := open(t, nil)
	want := addRuns(t, s, "acme", "r", 600)
	addRuns(t, s, "beta", "b", 20)
	roundTimes(t, where)
	runs, _, err := s.Runs(t.Context(), &store.Filter{Tenant: "acme", Page: store.Page{Limit: 1000}})
	require.NoError(t, err)
	times := map[time.Time]bool{}
	for _, r := range runs {
		times[r.Created] = true
	}
	require.Less(t, len(times), len(runs), "no two runs have the same time")

	of := func(remainder int) (some []string) {
		for i, id := range want {
			if i%2 == remainder {
				some = append(some, id)
			}
		}
		return some
	}
	for _, c := range []struct {
		filter store.Filter
		limit  int
		want   []string
	}{
		{store.Filter{}, 1, want},
		{store.Filter{}, 7, want},
		{store.Filter{}, 600, want},
		{store.Filter{Agent: "a1"}, 7, of(1)},
		{store.Filter{Statuses: []journal.Status{journal.StatusRunning}}, 7, want},
		{store.Filter{Agent: "a0", Statuses: []journal.Status{journal.StatusRunning}}, 7, of(0)},
		{store.Filter{Agent: "a0", Statuses: []journal.Status{journal.StatusFinished}}, 7, nil},
		{store.Filter{Agent: "other"}, 7, nil},
	} {
		c.filter.Tenant = "acme"
		got := collectRuns(t, s, c.filter, c.limit, nil)
		require.ElementsMatch(t, c.want, got, "%+v in pages of %d", c.filter, c.limit)
	}
}

// testPagesAndWriters checks that runs that exist throughout are listed exactly once while
// other runs start, change and are deleted.
func testPagesAndWriters(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	stay := addRuns(t, s, "acme", "stay", 60)
	gone := addRuns(t, s, "acme", "gone", 40)
	stay = append(stay, addRuns(t, s, "acme", "last", 40)...)

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // begins runs
		for i := 0; ctx.Err() == nil; i++ {
			if err := other.Create(ctx, &journal.Creation{
				ID: fmt.Sprintf("new%06d", i), Tenant: "acme", Agent: "a0", Lazy: true, Log: []byte("x"),
			}); err != nil &&
				ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() { // changes runs
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := other.Renew(ctx, stay[i%len(stay)], 1, lease); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	deleted := 0
	between := func(*store.Position) { // deletes a run after each page, sometimes the one that the page ended with
		if deleted < len(gone) {
			require.NoError(t, s.Delete(ctx, gone[len(gone)-1-deleted]))
			deleted++
		}
	}
	for _, limit := range []int{3, 10} {
		got := collectRuns(t, s, store.Filter{Tenant: "acme"}, limit, between)
		seen := map[string]int{}
		for _, id := range got {
			seen[id]++
			require.Equal(t, 1, seen[id], "%s is listed twice", id)
		}
		for _, id := range stay {
			require.Equal(t, 1, seen[id], "%s is not listed", id)
		}
	}
	stop()
	wg.Wait()
	require.Positive(t, deleted)
}

// testPagesOfOtherLists checks that the pages of the other lists have each remaining row once,
// even if rows are added, and the last row of a page is deleted, between two pages.
func testPagesOfOtherLists(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	const n, limit = 23, 4
	_, err := s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	_, err = s.CreateTenant(ctx, "beta", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	var names, digests, keys []string
	for i := range n {
		name := fmt.Sprintf("n%02d", i)
		names = append(names, name)
		digest := fmt.Sprintf("%064x", i)
		digests = append(digests, digest)
		for _, tenant := range []*store.Tenant{s.Tenant("acme"), s.Tenant("beta")} {
			_, err := tenant.PutAgent(ctx, name, []byte(name), nil)
			require.NoError(t, err)
			_, err = tenant.PutAgent(ctx, name, []byte(name+" again"), nil)
			require.NoError(t, err)
			require.NoError(t,
				tenant.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: "wasm", Size: 1, About: []byte(`{}`)}, name, "1"))
			require.NoError(t,
				tenant.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: "wasm", Size: 1, About: []byte(`{}`)}, name, "2"))
			require.NoError(t, tenant.SetSecret(ctx, name, []byte("x")))
			require.NoError(
				t,
				tenant.AddUsage(ctx,
					store.Usage{Day: fmt.Sprintf("2026-01-%02d", i/3+1), Agent: name, Module: strings.Repeat("m", i%3), Runs: 1}),
			)
		}
		_, err := s.CreateTenant(ctx, name, "", store.TenantQuota{}, nil)
		require.NoError(t, err)
		require.NoError(t, s.Block(ctx, digest, "why"))
		k, _, err := s.Tenant("acme").CreateKey(ctx, &store.KeyOptions{Name: name})
		require.NoError(t, err)
		keys = append(keys, k.ID)
		_, _, err = s.Tenant("beta").CreateKey(ctx, &store.KeyOptions{Name: name})
		require.NoError(t, err)
	}
	acme := s.Tenant("acme")

	tenants := collect(
		t,
		limit,
		nil,
		func(p store.Page) ([]store.TenantInfo, *store.Position, error) { return s.Tenants(ctx, p) },
		func(i store.TenantInfo) string { return i.ID },
	)
	require.Equal(t, append([]string{"acme", "beta"}, names...), tenants)
	require.Equal(
		t,
		digests,
		collect(t, limit, nil, func(p store.Page) ([]store.Block, *store.Position, error) { return s.Blocks(ctx, p) },
			func(b store.Block) string { return b.Digest }),
	)
	require.Equal(
		t,
		names,
		collect(
			t,
			limit,
			nil,
			func(p store.Page) ([]store.SecretInfo, *store.Position, error) { return acme.Secrets(ctx, p) },
			func(i store.SecretInfo) string { return i.Name },
		),
	)
	require.ElementsMatch(
		t,
		keys,
		collect(t, limit, nil, func(p store.Page) ([]store.Key, *store.Position, error) { return acme.Keys(ctx, p) },
			func(k store.Key) string { return k.ID }),
	)
	require.ElementsMatch(
		t,
		digests,
		collect(
			t,
			limit,
			nil,
			func(p store.Page) ([]store.TenantModule, *store.Position, error) { return acme.Modules(ctx, p) },
			func(m store.TenantModule) string {
				require.Len(t, m.Names, 2)
				require.Equal(t, m.Digest, m.Names[0].Digest)
				require.Equal(t, []string{"1", "2"}, []string{m.Names[0].Version, m.Names[1].Version})
				return m.Digest
			},
		),
	)

	// Agents are changed, added and deleted while they are listed.
	page := 0
	got := collect(t, limit, func(p *store.Position) {
		page++
		require.NoError(t, acme.DeleteAgent(ctx, p.Name), "the position's own row")
		for _, name := range []string{"aaa", names[n-1], fmt.Sprintf("%.3s-new%d", p.Name, page)} {
			_, err := acme.PutAgent(ctx, name, []byte(fmt.Sprint("page ", page)), nil)
			require.NoError(t, err)
		}
	}, func(p store.Page) ([]store.StoredAgent, *store.Position, error) { return acme.Agents(ctx, p) },
		func(a store.StoredAgent) string { return a.Name })
	got = slices.DeleteFunc(got, func(name string) bool { return strings.Contains(name, "-new") })
	require.Equal(t, names, got)
	require.NotContains(t, got, "aaa", "it was added before the first position")
	all, err := acme.AgentNames(ctx)
	require.NoError(t, err)
	require.Len(t, all, n+1, "aaa, and one for each deleted agent")
	require.Equal(t, "aaa", all[0].Name)

	usage := func(from, to string, limit int) []string {
		return collect(
			t,
			limit,
			nil,
			func(p store.Page) ([]store.Usage, *store.Position, error) { return acme.Usage(ctx, from, to, p) },
			func(u store.Usage) string { return u.Agent },
		)
	}
	require.Equal(t, names, usage("2026-01-01", "2026-12-31", limit))
	require.Equal(t, names[3:9], usage("2026-01-02", "2026-01-03", 1))
	total, err := acme.UsageTotal(ctx, "2026-01-02", "2026-01-03")
	require.NoError(t, err)
	require.Equal(t, store.Usage{Runs: 6}, total)
	rows, next, err := acme.Usage(ctx, "2026-01-02", "2026-01-03",
		store.Page{After: &store.Position{Name: "2026-01-01/n99/"}})
	require.NoError(t, err)
	require.Len(t, rows, 6, "a position before the first day")
	require.Nil(t, next)
}

// testPageBytes checks that a page ends with the row that brings it to 4 MiB or more, even if its
// limit of rows is higher.
func testPageBytes(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	_, err := s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	acme := s.Tenant("acme")
	const size = 3 << 20
	for _, name := range []string{"a", "b", "c"} {
		_, err := acme.PutAgent(ctx, name, make([]byte, size), nil)
		require.NoError(t, err)
	}
	list, next, err := acme.Agents(ctx, store.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, &store.Position{Name: "b"}, next)
	list, next, err = acme.Agents(ctx, store.Page{Limit: 10, After: next})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Nil(t, next)
}
