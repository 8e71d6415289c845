package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// goGuest builds testdata/goguest once for all tests.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "goguest")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "goguest.wasm")
	build := exec.Command("go", "build", "-buildvcs=false", "-buildmode=c-shared", "-o", out, "./testdata/goguest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

// TestGoGuest checks the output of a Go program, and its faults if it panics, exhausts its memory
// or loops. All subtests share a compiled module, because compiling takes most of the time.
func TestGoGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles a large module")
	}
	t.Parallel()
	b, err := goGuest()
	require.NoError(t, err)
	s := newSandbox(t, Options{})
	load(t, s, b, Limits{}) // keeps the code, so that it is compiled once
	t.Run("hook", func(t *testing.T) { goGuestHook(t, load(t, s, b, Limits{HookTime: time.Minute})) })
	for export, want := range map[string]struct {
		limits Limits
		kind   FaultKind
		text   string
		frame  string // a function that must be on the guest's stack
	}{
		"fail": {Limits{}, FaultTrap, "fail: unreachable executed (panic: the guest gave up)", "main.fail"},
		"eat": {Limits{HookTime: time.Minute, MemoryBytes: 8 << 20}, FaultMemory,
			"after it was refused memory beyond 8 MiB (fatal error: out of memory)", "runtime.throw"},
		"spin": {Limits{HookTime: 100 * time.Millisecond}, FaultTimeout, "spin: ran longer than 100ms", "main.spin"},
	} {
		t.Run(export, func(t *testing.T) {
			in := instantiate(t, load(t, s, b, want.limits), InstanceConfig{})
			_, err := in.Call(t.Context(), export)
			fault := faultOf(t, err)
			require.Equal(t, want.kind, fault.Kind)
			require.ErrorContains(t, fault, want.text)
			require.Contains(t, strings.Join(fault.Stack, "\n"), want.frame)
		})
	}
}

func goGuestHook(t *testing.T, im *Image) {
	var printed []string
	for range 2 {
		var stdout, stderr sink
		in := instantiate(t, im, InstanceConfig{
			Stdout: stdout.line, Stderr: stderr.line,
			Clock: func() int64 { return 1_800_000_000_000_000_000 },
			Seed:  []byte("a run"),
			Value: &testValue{call: func(_ context.Context, _ *Guest, n uint32) uint32 { return n + 1 }},
		})
		require.Equal(t, []uint64{0}, call(t, in, "hook", 41))
		require.Equal(t, []string{"done"}, stderr.lines)
		require.Len(t, stdout.lines, 1)
		require.Contains(t, stdout.lines[0], `{"args":0,"call":42,"environ":0,"file":"open /etc/passwd: Bad file number",`+
			`"now":"2027-01-15T08:00:00Z","random":"`)
		require.Contains(t, stdout.lines[0], `","slept":"1h0m0s","sum":820}`)
		printed = append(printed, stdout.lines[0])
	}
	require.Equal(t, printed[0], printed[1], "seed and clock determine everything")
}
