package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/store"
)

var scope = hook.ValueScope{Tenant: "t", Entry: "m"}

func code(c abi.Code) error { return &abi.Error{Code: c} }

func get(t *testing.T, s store.Store, scope hook.ValueScope, key string) string {
	t.Helper()
	v, ok, err := s.GetValue(t.Context(), scope, key)
	require.NoError(t, err)
	require.Equal(t, ok, v.Version > 0)
	return string(v.Value)
}

func set(t *testing.T, s store.Store, key, value string) int64 {
	t.Helper()
	version, err := s.SetValue(t.Context(), scope, key, json.RawMessage(value), abi.LocalAlways, 0)
	require.NoError(t, err)
	return version
}

func testValues(t *testing.T, open Opener) {
	s, where := open(t, nil)
	set(t, s, "k", `{"a":"ü"}`)
	require.Equal(t, `{"a":"ü"}`, get(t, again(t, where), scope, "k"))
	for _, other := range []hook.ValueScope{{Tenant: "t", Entry: "n"}, {Tenant: "u", Entry: "m"}, {}} {
		require.Empty(t, get(t, s, other, "k"), "%v", other)
	}
	require.NoError(t, s.DeleteValue(t.Context(), scope, "k"))
	require.NoError(t, s.DeleteValue(t.Context(), scope, "k"))
	require.Empty(t, get(t, s, scope, "k"))

	for key, want := range map[string]abi.Code{"": abi.CodeInvalid, "a\x00b": abi.CodeInvalid, string(make([]byte, contract.MaxKey+1)): abi.CodeLimit} {
		_, err := s.SetValue(t.Context(), scope, key, json.RawMessage(`1`), abi.LocalAlways, 0)
		require.ErrorIs(t, err, code(want), "%q", key)
		_, _, err = s.GetValue(t.Context(), scope, key)
		require.ErrorIs(t, err, code(want), "%q", key)
	}
	_, err := s.SetValue(t.Context(), scope, "k", json.RawMessage(`{`), abi.LocalAlways, 0)
	require.ErrorIs(t, err, code(abi.CodeInvalid))
	_, err = s.SetValue(t.Context(), scope, "k", json.RawMessage(`1`), abi.LocalAlways, -time.Second)
	require.ErrorIs(t, err, code(abi.CodeInvalid))
}

func testVersions(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	write := func(version int64) (int64, error) {
		return s.SetValue(t.Context(), scope, "k", json.RawMessage(`1`), version, 0)
	}
	first, err := write(0)
	require.NoError(t, err)
	_, err = write(0)
	require.ErrorIs(t, err, code(abi.CodeConflict))
	second, err := write(first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = write(first)
	require.ErrorIs(t, err, code(abi.CodeConflict))
	require.NoError(t, s.DeleteValue(t.Context(), scope, "k"))
	_, err = write(second)
	require.ErrorIs(t, err, code(abi.CodeConflict), "it was deleted")
	third, err := write(0)
	require.NoError(t, err)
	require.Greater(t, third, second, "versions are not reused")

	var wg sync.WaitGroup
	wins := make(chan int64, 8)
	for range 8 {
		wg.Go(func() {
			if v, err := write(third); err == nil {
				wins <- v
			}
		})
	}
	wg.Wait()
	require.Len(t, wins, 1)
}

func testQuotas(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Quota: store.Quota{Bytes: 100, Keys: 3, Value: 60}})
	try := func(key, value string) error {
		_, err := s.SetValue(t.Context(), scope, key, json.RawMessage(value), abi.LocalAlways, 0)
		return err
	}
	text := func(n int) string { return `"` + string(make([]byte, 0, n)) + fmt.Sprintf("%0*d", n-2, 0) + `"` }
	require.ErrorIs(t, try("a", text(61)), code(abi.CodeLimit))
	require.NoError(t, try("a", text(60)))
	require.ErrorIs(t, try("b", text(40)), code(abi.CodeLimit), "61 and 41 are more than 100")
	require.NoError(t, try("a", text(40)), "it takes the place of a larger one")
	require.NoError(t, try("b", text(50)))
	require.NoError(t, try("c", `1`))
	require.ErrorIs(t, try("d", `1`), code(abi.CodeLimit), "three keys")
	require.NoError(t, s.DeleteValue(t.Context(), scope, "b"))
	require.NoError(t, try("d", `1`))
	_, err := s.AddValue(t.Context(), scope, "e", 1)
	require.ErrorIs(t, err, code(abi.CodeLimit))
	_, err = s.SetValue(t.Context(), hook.ValueScope{Tenant: "u", Entry: "m"}, "a", json.RawMessage(text(60)),
		abi.LocalAlways, 0)
	require.NoError(t, err, "another tenant has its own")
}

// testTenantValueQuotas checks the limits of the values of all entries of a tenant together.
// Without them, a tenant could exceed the limits of one entry by adding entries.
func testTenantValueQuotas(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Quota: store.Quota{All: 100, Entries: 3}})
	_, err := s.CreateTenant(t.Context(), "more", "", store.TenantQuota{ValueBytes: 150}, nil)
	require.NoError(t, err)
	_, err = s.CreateTenant(t.Context(), "usual", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	try := func(tenant, entry string, size int, ttl time.Duration) error {
		value := json.RawMessage(`"` + strings.Repeat("v", size-len("key")-2) + `"`)
		_, err := s.SetValue(t.Context(), hook.ValueScope{Tenant: tenant, Entry: entry}, "key", value, abi.LocalAlways, ttl)
		return err
	}
	for tenant, all := range map[string]int{"unknown": 100, "usual": 100, "more": 150} {
		require.NoError(t, try(tenant, "a", all-50, 0))
		require.ErrorIs(t, try(tenant, "b", 51, 0), code(abi.CodeLimit), tenant)
		require.NoError(t, try(tenant, "b", 50, time.Millisecond), tenant)
		require.Eventually(t, func() bool { return get(t, s, hook.ValueScope{Tenant: tenant, Entry: "b"}, "key") == "" },
			10*time.Second, time.Millisecond)
		require.NoError(t, try(tenant, "c", 40, 0), "%s: expired values of other entries do not count", tenant)
		require.NoError(t, try(tenant, "d", 10, 0), "%s: nor do entries without values", tenant)
		require.ErrorContains(t, try(tenant, "e", 6, 0), "3 entries", tenant)
		require.ErrorIs(t, try(tenant, "c", 41, 0), code(abi.CodeLimit), tenant)
		require.NoError(t, try(tenant, "a", all-60, 0), "%s: a smaller value is always accepted", tenant)
		require.NoError(t, try(tenant, "c", 50, 0), tenant)
	}
}

func testTTL(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Quota: store.Quota{Keys: 2}})
	write := func(key string, ttl time.Duration) int64 {
		v, err := s.SetValue(t.Context(), scope, key, json.RawMessage(`1`), abi.LocalAlways, ttl)
		require.NoError(t, err)
		return v
	}
	gone := func(key string) func() bool { return func() bool { return get(t, s, scope, key) == "" } }
	write("long", time.Hour)
	require.Equal(t, `1`, get(t, s, scope, "long"))
	short := write("short", time.Millisecond)
	require.Eventually(t, gone("short"), 10*time.Second, time.Millisecond)
	_, err := s.SetValue(t.Context(), scope, "short", json.RawMessage(`2`), short, 0)
	require.ErrorIs(t, err, code(abi.CodeConflict), "as if it had been deleted")
	write("other", time.Millisecond) // succeeds, because expired values do not count
	require.Eventually(t, gone("other"), 10*time.Second, time.Millisecond)

	sum, err := s.AddValue(t.Context(), scope, "other", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, sum, "an expired counter starts at zero")
	require.NoError(t, s.DeleteValue(t.Context(), scope, "other"))
	write("short", time.Second)
	_, err = s.AddValue(t.Context(), scope, "short", 5)
	require.NoError(t, err)
	require.Eventually(t, gone("short"), 10*time.Second, time.Millisecond, "adding does not change when the value expires")

	for range 30 { // the value sometimes expires during a change
		write("short", 2*time.Millisecond)
		for begun := time.Now(); time.Since(begun) < 3*time.Millisecond; {
			_, err = s.AddValue(t.Context(), scope, "short", 5)
			require.NoError(t, err)
		}
		require.NoError(t, s.DeleteValue(t.Context(), scope, "short"))
	}
	write("other", 0)
}

func testCounters(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				_, err := []store.Store{s, other}[i%2].AddValue(t.Context(), scope, "n", 2)
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, `160`, get(t, s, scope, "n"))
	set(t, s, "n", `9223372036854775807`)
	_, err := s.AddValue(t.Context(), scope, "n", 1)
	require.ErrorIs(t, err, code(abi.CodeInvalid))
	set(t, s, "n", `"x"`)
	_, err = s.AddValue(t.Context(), scope, "n", 1)
	require.ErrorIs(t, err, code(abi.CodeInvalid))
}
