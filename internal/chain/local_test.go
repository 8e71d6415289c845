package chain

import (
	"encoding/json"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

func localCall(locals *Locals, name string, ring Ring) *Call {
	return &Call{run: &Run{locals: locals}, member: &member{Entry: Entry{Name: name, Ring: ring}, own: ownScope("", name)}}
}

func TestLocalsWaitForTheHook(t *testing.T) {
	t.Parallel()
	locals := NewLocals()
	c := localCall(locals, "a", Tenant)
	v1, err := c.LocalSet("k", json.RawMessage(`1`), abi.LocalAlways)
	require.NoError(t, err)
	got, ok, err := c.LocalGet("k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, abi.LocalValue{Value: json.RawMessage(`1`), Version: v1}, got, "the hook sees its own write")
	_, ok, _ = localCall(locals, "a", Tenant).LocalGet("k")
	require.False(t, ok, "nobody else does before it has succeeded")
	require.NoError(t, c.commit())
	got, ok, _ = localCall(locals, "a", Tenant).LocalGet("k")
	require.True(t, ok)
	require.Equal(t, v1, got.Version)
	_, ok, _ = localCall(locals, "b", Tenant).LocalGet("k")
	require.False(t, ok, "keys are the entry's own")
}

func TestLocalsWithVersions(t *testing.T) {
	t.Parallel()
	locals := NewLocals()
	c := localCall(locals, "a", Tenant)
	v1, err := c.LocalSet("k", json.RawMessage(`"x"`), 0)
	require.NoError(t, err, "a missing key has version 0")
	_, err = c.LocalSet("k", json.RawMessage(`"y"`), 0)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeConflict})
	v2, err := c.LocalSet("k", json.RawMessage(`"y"`), v1)
	require.NoError(t, err)
	require.Greater(t, v2, v1)
	got, _, _ := localCall(locals, "a", Tenant).LocalGet("k")
	require.Equal(t, json.RawMessage(`"y"`), got.Value, "at once, without a commit")

	v3, err := c.LocalSet("k", json.RawMessage(`"z"`), abi.LocalAlways)
	require.NoError(t, err)
	v4, err := c.LocalSet("k", json.RawMessage(`"zz"`), v3)
	require.NoError(t, err, "a write that waits is made before one that takes effect at once")
	require.NoError(t, c.LocalDelete("k"))
	got, ok, _ := c.LocalGet("k")
	require.False(t, ok, got)
	require.NoError(t, c.commit())
	_, err = c.LocalSet("k", json.RawMessage(`1`), v4)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeConflict}, "versions do not come again")
}

func TestLocalsAdd(t *testing.T) {
	t.Parallel()
	c := localCall(NewLocals(), "a", Tenant)
	n, err := c.LocalAdd("n", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	n, err = c.LocalAdd("n", -7)
	require.NoError(t, err)
	require.EqualValues(t, -2, n)
	_, err = c.LocalAdd("n", math.MinInt64)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid}, "no silent overflow")
	_, err = c.LocalSet("s", json.RawMessage(`"x"`), abi.LocalAlways)
	require.NoError(t, err)
	_, err = c.LocalAdd("s", 1)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
}

func TestLocalsOfRings(t *testing.T) {
	t.Parallel()
	locals := NewLocals()
	_, err := localCall(locals, "op", Outer).LocalSet("run/budget", json.RawMessage(`10`), 0)
	require.NoError(t, err)
	tenant := localCall(locals, "t1", Tenant)
	got, ok, err := tenant.LocalGet("run/budget")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, json.RawMessage(`10`), got.Value)
	_, err = tenant.LocalSet("run/budget", json.RawMessage(`99`), abi.LocalAlways)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied})
	_, err = tenant.LocalAdd("run/budget", 1)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied})
	_, err = tenant.LocalSet("run/note", json.RawMessage(`1`), 0)
	require.NoError(t, err)
	_, ok, _ = localCall(locals, "t2", Tenant).LocalGet("run/note")
	require.True(t, ok, "shared in a ring")
	_, ok, _ = localCall(locals, "op", Outer).LocalGet("run/note")
	require.False(t, ok, "not outward")
}

func TestLocalsAreBounded(t *testing.T) {
	t.Parallel()
	c := localCall(NewLocals(), "a", Tenant)
	big := json.RawMessage(`"` + strings.Repeat("x", maxLocalBytes) + `"`)
	_, err := c.LocalSet("k", big, 0)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
	_, err = c.LocalSet("k", big, abi.LocalAlways)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
	_, err = c.LocalSet("k", json.RawMessage(`{"a":1,"a":2}`), 0)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
	_, err = c.LocalSet(strings.Repeat("k", 257), json.RawMessage(`1`), 0)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
}

func TestLocalsSurviveSerialisation(t *testing.T) {
	t.Parallel()
	locals := NewLocals()
	c := localCall(locals, "a", Tenant)
	v, err := c.LocalSet("k", json.RawMessage(`{"deep":[1,2.50]}`), 0)
	require.NoError(t, err)
	b, err := json.Marshal(locals)
	require.NoError(t, err)
	var again Locals
	require.NoError(t, json.Unmarshal(b, &again))
	c = localCall(&again, "a", Tenant)
	got, ok, _ := c.LocalGet("k")
	require.True(t, ok)
	require.Equal(t, json.RawMessage(`{"deep":[1,2.50]}`), got.Value)
	v2, err := c.LocalSet("k", json.RawMessage(`1`), v)
	require.NoError(t, err)
	require.Greater(t, v2, v)
}

// TestLocalsSizesStayRight holds the sum that the limit goes by to what is there.
func TestLocalsSizesStayRight(t *testing.T) {
	t.Parallel()
	locals := NewLocals()
	for i := range 200 {
		c := localCall(locals, "a", Tenant)
		key := strings.Repeat("k", 1+i%7)
		var err error
		switch i % 3 {
		case 0:
			_, err = c.LocalSet(key, json.RawMessage(`"`+strings.Repeat("x", i)+`"`), abi.LocalAlways)
		case 1:
			err = c.LocalDelete(key)
		default:
			_, err = c.LocalAdd("n"+key, int64(i))
		}
		require.NoError(t, err)
		require.NoError(t, c.commit())
	}
	want := 0
	for key, v := range locals.scopes["entry:a"] {
		want += len(key) + len(v.Value)
	}
	require.Equal(t, want, locals.sizes["entry:a"])
}

// TestRejectedLocalSetCopiesNothing checks that a write beyond the limits costs the host no copy of
// its value: a hook can repeat such a write thousands of times.
func TestRejectedLocalSetCopiesNothing(t *testing.T) {
	value := json.RawMessage(`"` + strings.Repeat("x", maxLocalBytes-100) + `"`)
	outdated := func(c *Call) error {
		_, err := c.LocalSet("k", value, 1000)
		return err
	}
	for name, test := range map[string]struct {
		write func(c *Call) error
		want  abi.Code
	}{
		"beyond the limit of a hook": {func(c *Call) error {
			_, err := c.LocalSet("k", value, abi.LocalAlways)
			return err
		}, abi.CodeLimit},
		"with an outdated version": {outdated, abi.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			c := localCall(NewLocals(), "a", Tenant)
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

// TestLocalSetStopsWhileItCopies checks that a long copy ends when the call has to.
func TestLocalSetStopsWhileItCopies(t *testing.T) {
	t.Parallel()
	c := localCall(NewLocals(), "a", Tenant)
	value := json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	asked := 0
	c.Until(func() error { asked++; return nil })
	require.NoError(t, abi.ValidUntil(value, c.stop))
	reading := asked
	_, err := c.LocalSet("k", value, abi.LocalAlways)
	require.NoError(t, err)
	require.GreaterOrEqual(t, asked-2*reading, 10, "stop is asked between pieces of the copy")
}
