package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

func TestMain(m *testing.M) {
	if IsChild() {
		os.Exit(Main(Handler{"reverse", reverse}, Handler{"attempt", attemptJob})) //nolint:forbidigo // this is a main
	}
	if len(os.Args) == 4 && (os.Args[1] == "confined" || os.Args[1] == "free") {
		os.Exit(confinedMain(os.Args[1] == "free", os.Args[2:])) //nolint:forbidigo // this is a main
	}
	goleak.VerifyTestMain(m)
}

func newPool(t testing.TB, opts Options) *Pool {
	t.Helper()
	p, err := NewPool(opts)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close(context.Canceled) })
	return p
}

// TestExplain checks the errors for children that ran out of memory or time, or failed otherwise.
func TestExplain(t *testing.T) {
	t.Parallel()
	c := limits{memory: 1 << 30, cpu: 20 * time.Second}
	var exit *exec.ExitError
	require.ErrorAs(t, exec.Command("/bin/false").Run(), &exit)
	require.EqualError(
		t,
		c.explain("", exit, "", "fatal error: runtime: out of memory"),
		"compiling it took more than 1 GiB of memory; split its largest functions, or raise the memory that compiling may take",
	)
	require.EqualError(
		t,
		c.explain("", exit, "", "SIGXCPU: cpu limit exceeded"),
		"compiling it took more than 20s of processor time; split its largest functions, or raise the time that compiling may take",
	)
	require.ErrorContains(t, c.explain("", exit, "", "panic: BUG\n\ngoroutine 1"),
		"the compiler ended with exit status 1: panic: BUG")
}

// TestInvalidOptions checks that NewPool rejects a negative limit, and fails in a child.
func TestInvalidOptions(t *testing.T) {
	_, err := NewPool(Options{Timeout: -1})
	require.ErrorContains(t, err, "a limit is negative")

	args := os.Args
	defer func() { os.Args = args }()
	t.Setenv(childEnv, "1")
	require.False(t, IsChild(), "with other arguments")
	os.Args = []string{args[0], childArg}
	_, err = NewPool(Options{})
	require.ErrorContains(t, err, "call host.CompileChildMain at the beginning of main")
}

// TestRun checks the outputs of jobs, and the errors of jobs that fail, crash or exceed a limit.
func TestRun(t *testing.T) {
	t.Parallel()
	p, hasty := newPool(t, Options{MemoryBytes: 256 << 20}), newPool(t, Options{Timeout: time.Second})
	dir := t.TempDir()
	out, err := p.Run(t.Context(), "", dir, Job{Name: "reverse", Input: []byte("abc")})
	require.NoError(t, err)
	require.Equal(t, "cba", string(out))
	out, err = p.Run(t.Context(), "", dir, Job{Name: "reverse", Input: []byte("where")})
	require.NoError(t, err)
	require.Equal(t, dir, string(out))
	var refused *verify.RefusedError
	for input, want := range map[string]string{
		"fail": "it failed", "loop": "the job reverse took more than 1s", "leak": "the job reverse took more than 256 MiB of memory",
		"panic": "the job reverse ended with exit status 2: panic: nothing to reverse",
	} {
		if testing.Short() && (input == "loop" || input == "leak") {
			continue // they take seconds
		}
		pool := p
		if input == "loop" {
			pool = hasty
		}
		_, err := pool.Run(t.Context(), "", dir, Job{Name: "reverse", Input: []byte(input)})
		require.ErrorContains(t, err, want)
		require.Equal(t, input != "fail", errors.As(err, &refused))
	}
	_, err = p.Run(t.Context(), "", dir, Job{Name: "reverse", Input: []byte("leak"), MemoryBytes: 64 << 20})
	require.ErrorContains(t, err, "the job reverse took more than 64 MiB of memory")
	if runtime.GOOS == "linux" && !testing.Short() {
		// This pool has the default memory limit, because the race detector's runtime may need more
		// than p allows.
		patient := newPool(t, Options{Timeout: time.Hour})
		_, err = patient.Run(t.Context(), "", dir, Job{Name: "reverse", Input: []byte("loop"), CPUTime: time.Second})
		require.ErrorContains(t, err, "the job reverse took more than 1s of processor time")
	}
	_, err = p.Run(t.Context(), "", dir, Job{Name: "other"})
	require.ErrorContains(t, err, "the child has no job other: pass it to CompileChildMain")
	p.program = filepath.Join(dir, "nothing")
	_, err = p.Run(t.Context(), "", dir, Job{Name: "reverse"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, errors.As(err, &refused), "this is not the input's mistake: %v", err)
}

// TestBusyMachine checks that a child that uses no processor time, like one that waits for a
// processor, ends only after a multiple of the timeout. The children of the test sleep or block
// instead.
func TestBusyMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux is the processor time of a child known")
	}
	t.Parallel()
	out, err := newPool(t, Options{Timeout: time.Second}).Run(t.Context(), "", t.TempDir(),
		Job{Name: "reverse", Input: []byte("nap")})
	require.NoError(t, err)
	require.Equal(t, "pan", string(out))
	_, err = newPool(t, Options{Timeout: 200 * time.Millisecond}).Run(t.Context(), "", t.TempDir(),
		Job{Name: "reverse", Input: []byte("block")})
	require.ErrorContains(t, err, "the job reverse took more than 200ms")
}

// TestClose checks that closing a pool ends its children.
func TestClose(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Timeout: time.Hour})
	failed := make(chan error)
	go func() {
		_, err := p.Run(context.Background(), "", os.TempDir(), Job{Name: "reverse", Input: []byte("loop")})
		failed <- err
	}()
	require.Eventually(t, func() bool { return p.InUse() == 1 }, time.Minute, time.Millisecond)
	p.Close(os.ErrClosed)
	require.ErrorIs(t, <-failed, os.ErrClosed)
}

// reverse is a job that reverses its input. A few inputs name a way to fail instead, such as "loop".
func reverse(input []byte) ([]byte, error) {
	switch string(input) {
	case "where":
		dir, err := os.Getwd()
		return []byte(dir), err
	case "environment":
		return []byte(strings.Join(os.Environ(), "\n")), nil
	case "fail":
		return nil, errors.New("it failed")
	case "loop":
		for { //nolint:staticcheck // spins on purpose
		}
	case "nap":
		time.Sleep(2 * time.Second)
	case "block":
		select {}
	case "leak":
		for all := [][]byte{}; ; all = append(all, bytes.Repeat([]byte{1}, 1<<20)) {
		}
	case "panic":
		panic("nothing to reverse")
	}
	slices.Reverse(input)
	return input, nil
}

// TestServe checks that a child rejects input that is not a request.
func TestServe(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "chd2", strings.Repeat("x", 100)} {
		require.ErrorContains(t, serve(strings.NewReader(in), io.Discard, nil), "only the host starts this command")
	}
}
