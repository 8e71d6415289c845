package local

import (
	"encoding/json"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Arguments of NewOwner: the name of an entry's ring, followed by the names of the rings outside
// it, from the inside out.
var (
	outer  = []string{"outer"}
	tenant = []string{"tenant", "outer"}
)

// begin starts a transaction of an entry.
func begin(v *Values, entry string, rings []string) *Tx {
	o := NewOwner("", entry, rings...)
	tx := v.Begin(&o, &account.Meter{})
	return &tx
}

func TestLocalsWaitForTheHook(t *testing.T) {
	t.Parallel()
	locals := New()
	c := begin(locals, "a", tenant)
	v1, err := c.Set("k", json.RawMessage(`1`), abi.LocalAlways, nil)
	require.NoError(t, err)
	got, ok, err := c.Get("k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, contract.LocalValue{Value: json.RawMessage(`1`), Version: v1}, got, "the hook sees its own write")
	_, ok, _ = begin(locals, "a", tenant).Get("k")
	require.False(t, ok, "nobody else does before it has succeeded")
	require.NoError(t, c.Commit())
	got, ok, _ = begin(locals, "a", tenant).Get("k")
	require.True(t, ok)
	require.Equal(t, v1, got.Version)
	_, ok, _ = begin(locals, "b", tenant).Get("k")
	require.False(t, ok, "keys are the entry's own")
}

func TestLocalsWithVersions(t *testing.T) {
	t.Parallel()
	locals := New()
	c := begin(locals, "a", tenant)
	v1, err := c.Set("k", json.RawMessage(`"x"`), 0, nil)
	require.NoError(t, err, "a missing key has version 0")
	_, err = c.Set("k", json.RawMessage(`"y"`), 0, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeConflict})
	v2, err := c.Set("k", json.RawMessage(`"y"`), v1, nil)
	require.NoError(t, err)
	require.Greater(t, v2, v1)
	got, _, _ := begin(locals, "a", tenant).Get("k")
	require.Equal(t, json.RawMessage(`"y"`), got.Value, "at once, without a commit")

	v3, err := c.Set("k", json.RawMessage(`"z"`), abi.LocalAlways, nil)
	require.NoError(t, err)
	v4, err := c.Set("k", json.RawMessage(`"zz"`), v3, nil)
	require.NoError(t, err, "a write that waits is made before one that takes effect at once")
	require.NoError(t, c.Delete("k"))
	got, ok, _ := c.Get("k")
	require.False(t, ok, got)
	require.NoError(t, c.Commit())
	_, err = c.Set("k", json.RawMessage(`1`), v4, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeConflict}, "versions do not come again")
}

func TestLocalsAdd(t *testing.T) {
	t.Parallel()
	c := begin(New(), "a", tenant)
	n, err := c.Add("n", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	n, err = c.Add("n", -7)
	require.NoError(t, err)
	require.EqualValues(t, -2, n)
	_, err = c.Add("n", math.MinInt64)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid}, "no silent overflow")
	_, err = c.Set("s", json.RawMessage(`"x"`), abi.LocalAlways, nil)
	require.NoError(t, err)
	_, err = c.Add("s", 1)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
}

func TestLocalsOfRings(t *testing.T) {
	t.Parallel()
	locals := New()
	_, err := begin(locals, "op", outer).Set("run/budget", json.RawMessage(`10`), 0, nil)
	require.NoError(t, err)
	inner := begin(locals, "t1", tenant)
	got, ok, err := inner.Get("run/budget")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, json.RawMessage(`10`), got.Value)
	_, err = inner.Set("run/budget", json.RawMessage(`99`), abi.LocalAlways, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied})
	_, err = inner.Add("run/budget", 1)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied})
	_, err = inner.Set("run/note", json.RawMessage(`1`), 0, nil)
	require.NoError(t, err)
	_, ok, _ = begin(locals, "t2", tenant).Get("run/note")
	require.True(t, ok, "shared in a ring")
	_, ok, _ = begin(locals, "op", outer).Get("run/note")
	require.False(t, ok, "not outward")
}

func TestLocalsAreBounded(t *testing.T) {
	t.Parallel()
	c := begin(New(), "a", tenant)
	big := json.RawMessage(`"` + strings.Repeat("x", maxBytes) + `"`)
	_, err := c.Set("k", big, 0, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
	_, err = c.Set("k", big, abi.LocalAlways, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
	_, err = c.Set("k", json.RawMessage(`{"a":1,"a":2}`), 0, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
	_, err = c.Set(strings.Repeat("k", 257), json.RawMessage(`1`), 0, nil)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
}

func TestLocalsSurviveSerialisation(t *testing.T) {
	t.Parallel()
	locals := New()
	c := begin(locals, "a", tenant)
	v, err := c.Set("k", json.RawMessage(`{"deep":[1,2.50]}`), 0, nil)
	require.NoError(t, err)
	b, err := json.Marshal(locals)
	require.NoError(t, err)
	var again Values
	require.NoError(t, json.Unmarshal(b, &again))
	c = begin(&again, "a", tenant)
	got, ok, _ := c.Get("k")
	require.True(t, ok)
	require.Equal(t, json.RawMessage(`{"deep":[1,2.50]}`), got.Value)
	v2, err := c.Set("k", json.RawMessage(`1`), v, nil)
	require.NoError(t, err)
	require.Greater(t, v2, v)
}

// TestLocalsCommitAllOrNothing checks that a commit whose last write fails changes nothing.
func TestLocalsCommitAllOrNothing(t *testing.T) {
	t.Parallel()
	locals := New()
	locals.Count(account.New(account.LevelRun, "r", nil, 64<<20))
	set := func(tx *Tx, key, val string) {
		_, err := tx.Set(key, json.RawMessage(val), abi.LocalAlways, nil)
		require.NoError(t, err)
	}
	tx := begin(locals, "a", tenant)
	set(tx, "changed", `"old"`)
	set(tx, "deleted", `"old"`)
	require.NoError(t, tx.Commit())
	tx.End(nil)
	_ = locals.Changes()
	encoded := func() string {
		b, err := json.Marshal(locals.scopes["entry:a"])
		require.NoError(t, err)
		return string(b)
	}
	before, held := encoded(), locals.share.Size()

	tx = begin(locals, "a", tenant)
	set(tx, "new", `1`)
	set(tx, "changed", `2`)
	require.NoError(t, tx.Delete("deleted"))
	set(tx, "changed", `"newest"`)
	set(tx, abi.SharedPrefix+"k", `1`)
	_, err := begin(locals, "b", outer).Add(abi.SharedPrefix+"k", 1) // now the key belongs to the outer ring
	require.NoError(t, err)
	require.ErrorIs(t, tx.Commit(), &abi.Error{Code: abi.CodeDenied})
	tx.End(nil)
	require.Empty(t, locals.Changes())

	locals.remove("ring:outer", abi.SharedPrefix+"k")
	require.Equal(t, before, encoded())
	require.Equal(t, held, locals.share.Size())
}

// TestLocalsSizesStayRight checks that the size counted towards the limit matches the stored
// values.
func TestLocalsSizesStayRight(t *testing.T) {
	t.Parallel()
	locals := New()
	for i := range 200 {
		c := begin(locals, "a", tenant)
		key := strings.Repeat("k", 1+i%7)
		var err error
		switch i % 3 {
		case 0:
			_, err = c.Set(key, json.RawMessage(`"`+strings.Repeat("x", i)+`"`), abi.LocalAlways, nil)
		case 1:
			err = c.Delete(key)
		default:
			_, err = c.Add("n"+key, int64(i))
		}
		require.NoError(t, err)
		require.NoError(t, c.Commit())
	}
	want := 0
	for key, v := range locals.scopes["entry:a"] {
		want += len(key) + len(v.Value)
	}
	require.Equal(t, want, locals.sizes["entry:a"])
}

// TestRejectedLocalSetCopiesNothing checks that the host does not copy the value of a write that
// exceeds the limit of a hook or has an outdated version. A hook can repeat such a write thousands
// of times.
func TestRejectedLocalSetCopiesNothing(t *testing.T) {
	value := json.RawMessage(`"` + strings.Repeat("x", maxBytes-100) + `"`)
	outdated := func(c *Tx) error {
		_, err := c.Set("k", value, 1000, nil)
		return err
	}
	for name, test := range map[string]struct {
		write func(c *Tx) error
		want  abi.Code
	}{
		"beyond the limit of a hook": {func(c *Tx) error {
			_, err := c.Set("k", value, abi.LocalAlways, nil)
			return err
		}, abi.CodeLimit},
		"with an outdated version": {outdated, abi.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(New(), "a", tenant)
			if test.want == abi.CodeLimit {
				require.NoError(t, test.write(c), "the first write")
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 10 {
				require.ErrorIs(t, test.write(c), &abi.Error{Code: test.want})
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(value)))
		})
	}
}

// TestLocalSetStopsWhileItCopies checks that Set calls stop repeatedly while it copies a large
// value.
func TestLocalSetStopsWhileItCopies(t *testing.T) {
	t.Parallel()
	c := begin(New(), "a", tenant)
	value := json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	asked := 0
	stop := func() error { asked++; return nil }
	require.NoError(t, jsoncodec.ValidUntil(value, stop))
	reading := asked
	_, err := c.Set("k", value, abi.LocalAlways, stop)
	require.NoError(t, err)
	require.GreaterOrEqual(t, asked-2*reading, 10, "stop is asked between pieces of the copy")
}

// TestChangesAreNotedOnce checks that a transaction records each changed key once, and no key that
// does not exist. The records of wrappers last as long as their exchange.
func TestChangesAreNotedOnce(t *testing.T) {
	t.Parallel()
	values := New()
	values.Count(account.New(account.LevelRun, "r", nil, 64<<20))
	tx := begin(values, "a", tenant)
	for range 1000 {
		_, err := tx.Add("n", 1)
		require.NoError(t, err)
	}
	require.Len(t, tx.changed.list, 1)
	for i := range 40 {
		_, err := tx.Add("m"+strconv.Itoa(i%20), 1)
		require.NoError(t, err)
	}
	require.Len(t, tx.changed.list, 21)
	for i := range 1000 {
		require.NoError(t, tx.Delete("gone"+strconv.Itoa(i)))
	}
	require.NoError(t, tx.Commit())
	_, h := WithHold(t.Context())
	tx.End(h)
	require.Len(t, h.changes, 21)
	require.Empty(t, values.Changes(), "they are not persisted before the hold is released")
	values.ReleaseAll()
	changes := values.Changes()
	require.Len(t, changes, 21)
	require.Equal(t, "2", string(changes[0].Value))
	require.Equal(t, "1000", string(changes[20].Value))
}
