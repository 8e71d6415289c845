package middleware_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

type mood string

func TestSprintf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format string
		args   []any
	}{
		{"nothing", nil},
		{"100%% of %s", []any{"it"}},
		{"%s %v %q", []any{"a", "b", "c\n"}},
		{"%s, %q", []any{mood("fine"), mood("fine")}},
		{"%s %x %X %q", []any{[]byte("raw"), []byte("raw"), "raw", []byte("raw")}},
		{"%d %v %x %X %o %b %c %q", []any{1, int8(-2), 255, uint16(255), 8, 5, 'ä', 'ä'}},
		{"%d %d", []any{int64(math.MinInt64), uint64(math.MaxUint64)}},
		{"%5d|%-5d|%05d|%+d|%+5d", []any{42, 42, -42, 42, 42}},
		{"%8s|%-8s|%.2s|%8.2s|", []any{"häh", "häh", "häh", "häh"}},
		{"%t %v %5t", []any{true, false, true}},
		{"%v %v %v %v", []any{1.5, 1e21, float32(0.1), math.Inf(1)}},
		{"%f %.2f %8.3f %-8.1f| %e %.3g %+.1f %08.3f", []any{1.5, 1.005, math.Pi, math.Pi, 12345.678, math.Pi, 2.0, -math.Pi}},
		{"%v %s", []any{errors.New("no"), errors.New("no")}},
		{"%v %d %s", []any{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{"%v", []any{nil}},
		{"%T", []any{1}},
		{"%d and %s", []any{1}},
	} {
		require.Equal(t, fmt.Sprintf(c.format, c.args...), middleware.Sprintf(c.format, c.args...), c.format)
	}
}

func TestSprintfNested(t *testing.T) {
	t.Parallel()
	type inner struct {
		Y []string
		z bool
	}
	type point struct {
		X  int
		In inner
		M  map[string]float64
		E  any
	}
	p := point{1, inner{[]string{"a", "b"}, true}, map[string]float64{"b": 1, "a": 0.5}, 'x'}
	for _, format := range []string{"%v", "%+v", "%q %v"} {
		for _, v := range []any{
			p, &p, []int{1, 2}, [2]bool{true}, []byte("ab"), map[string][]bool{"a": {true}}, []any{1, nil, "x"}, (*point)(nil),
			struct{}{},
		} {
			args := []any{v}
			if format == "%q %v" {
				args = []any{[]string{"a"}, v}
			}
			require.Equal(t, fmt.Sprintf(format, args...), middleware.Sprintf(format, args...), format)
		}
	}
	require.Equal(t, fmt.Sprintf("%d %x", []int{10, 11}, []int{10, 11}),
		middleware.Sprintf("%d %x", []int{10, 11}, []int{10, 11}))
	type ring struct{ next *ring }
	r := &ring{}
	r.next = r
	require.Contains(t, middleware.Sprintf("%v", r), "…")
	require.Equal(t, "(func())", middleware.Sprintf("%v", func() {}))
	require.Equal(t, "a%!(EXTRA 2 of 2)", middleware.Sprintf("a", 1, 2))
	require.Equal(t, "50%", middleware.Sprintf("50%"))
	require.Len(t, middleware.Sprintf("%99999d", 1), 999)
}

func TestErrorf(t *testing.T) {
	t.Parallel()
	denied := &abi.Error{Code: abi.CodeDenied, Message: "no"}
	err := middleware.Errorf("read %q: %w; ask for it", "a", denied)
	require.EqualError(t, err, `read "a": no; ask for it`)
	require.ErrorIs(t, err, denied)
	require.NoError(t, errors.Unwrap(middleware.Errorf("nothing %d", 1)))
}
