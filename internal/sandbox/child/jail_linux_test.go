package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/agent-runner/agent-runner/internal/jail"
)

// An attempt is an action that hostile code in a child could try.
type attempt struct{ Do, Arg string }

// attempts are the actions that the job "attempt" can try.
var attempts = map[string]func(arg string) error{
	"read": func(arg string) error {
		_, err := os.ReadFile(arg)
		return err
	},
	"list": func(arg string) error {
		_, err := os.ReadDir(arg)
		return err
	},
	"write": func(arg string) error { return os.WriteFile(arg, []byte("x"), 0o600) },
	"connect": func(arg string) error {
		conn, err := net.DialTimeout("tcp", arg, 5*time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	},
	"udp":    func(string) error { return openSocket(unix.AF_INET, unix.SOCK_DGRAM) },
	"unix":   func(string) error { return openSocket(unix.AF_UNIX, unix.SOCK_STREAM) },
	"packet": func(string) error { return openSocket(unix.AF_NETLINK, unix.SOCK_RAW) },
	"ptrace": func(string) error {
		runtime.LockOSThread()
		return syscall.PtraceAttach(os.Getppid())
	},
	"memory of parent": func(string) error {
		b := make([]byte, 1)
		_, err := unix.ProcessVMReadv(os.Getppid(), []unix.Iovec{{Base: &b[0], Len: 1}},
			[]unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
		return err
	},
	"kill": func(string) error { return syscall.Kill(os.Getppid(), 0) },
	"fork": func(string) error {
		pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if pid == 0 && errno == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
		}
		if errno != 0 {
			return errno
		}
		return nil
	},
	"exec":      func(string) error { return syscall.Exec("/proc/self/exe", []string{"x", "-h"}, nil) },
	"memfd":     func(string) error { _, err := unix.MemfdCreate("x", 0); return err },
	"io_uring":  func(string) error { return errnoOf(syscall.RawSyscall(425, 1, 0, 0)) },
	"namespace": func(string) error { return syscall.Unshare(syscall.CLONE_NEWUSER) },
}

func errnoOf(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func openSocket(domain, kind int) error {
	fd, err := unix.Socket(domain, kind, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// attemptJob is a job that makes the attempt in its input, and returns "allowed", "denied" or the
// message of another error.
func attemptJob(input []byte) ([]byte, error) {
	var a attempt
	if err := json.Unmarshal(input, &a); err != nil {
		return nil, err
	}
	switch err := attempts[a.Do](a.Arg); {
	case err == nil:
		return []byte("allowed"), nil
	case errors.Is(err, fs.ErrPermission):
		return []byte("denied"), nil
	default:
		return []byte(err.Error()), nil
	}
}

// TestChildIsConfined checks that attempts of hostile code in children fail, except for
// reading the job's directory and writing machine code.
func TestChildIsConfined(t *testing.T) {
	t.Parallel()
	if missing := jail.Support().Missing(); missing != "" {
		t.Skip("this kernel lacks " + missing)
	}
	project, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(project, "file"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(other, "file"), nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(other, "file"), filepath.Join(project, "link")))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()

	p := newPool(t, Options{})
	in := func(directory string) func(a attempt) string {
		return func(a attempt) string {
			input, err := json.Marshal(a)
			require.NoError(t, err)
			out, err := p.Run(t.Context(), "", t.TempDir(), Job{Name: "attempt", Input: input, Directory: directory})
			require.NoError(t, err)
			return string(out)
		}
	}
	compiling := func(a attempt) string {
		cmd := exec.Command("/proc/self/exe", "confined", a.Do, a.Arg)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	modes := []struct {
		name string
		do   func(attempt) string
	}{{"upload", in("")}, {"project", in(project)}, {"compile", compiling}}
	for _, tt := range []struct {
		attempt
		allowed string // the names of the modes in which the attempt succeeds
	}{
		{attempt{"read", "/etc/passwd"}, ""},
		{attempt{"read", "/dev/zero"}, ""},
		{attempt{"read", "/proc/kmsg"}, ""},
		{attempt{"read", "/proc/self/environ"}, ""},
		{attempt{"read", fmt.Sprintf("/proc/%d/environ", os.Getpid())}, ""},
		{attempt{"read", fmt.Sprintf("/proc/%d/stat", os.Getpid())}, ""},
		{attempt{"read", filepath.Join(other, "file")}, ""},
		{attempt{"read", filepath.Join(project, "link")}, ""},
		{attempt{"read", filepath.Join(project, "file")}, "project"},
		{attempt{"list", project}, "project"},
		{attempt{"list", "/"}, ""},
		{attempt{"write", filepath.Join(project, "new")}, ""},
		{attempt{"write", filepath.Join(project, "file")}, ""},
		{attempt{"write", filepath.Join(other, "new")}, ""},
		{attempt{"write", "/dev/null"}, ""},
		{attempt{"write", "new"}, "compile"},
		{attempt{"connect", listener.Addr().String()}, ""},
		{attempt{"udp", ""}, ""},
		{attempt{"unix", ""}, ""},
		{attempt{"packet", ""}, ""},
		{attempt{"ptrace", ""}, ""},
		{attempt{"memory of parent", ""}, ""},
		{attempt{"kill", ""}, ""},
		{attempt{"fork", ""}, ""},
		{attempt{"exec", ""}, ""},
		{attempt{"memfd", ""}, ""},
		{attempt{"io_uring", ""}, ""},
		{attempt{"namespace", ""}, ""},
	} {
		for _, mode := range modes {
			want := "denied"
			if tt.allowed == mode.name {
				want = "allowed"
			}
			require.Equal(t, want, mode.do(tt.attempt), "%s: %+v", mode.name, tt.attempt)
		}
	}
}

// confinedMain is the main function of a child that confines itself like one that compiles,
// and runs an attempt instead. If free is set, it exits without confining itself.
func confinedMain(free bool, args []string) int {
	if free {
		return 0
	}
	if err := confine("", ""); err != nil {
		fmt.Fprint(os.Stdout, err)
		return 1
	}
	input, _ := json.Marshal(attempt{args[0], args[1]})
	out, err := attemptJob(input)
	fmt.Fprint(os.Stdout, string(out))
	if err != nil {
		return 1
	}
	return 0
}

// TestChildEnvironment checks that a child's only variable marks it as a child.
func TestChildEnvironment(t *testing.T) {
	t.Setenv("AGENT_RUNNER_SECRET", "canary")
	out, err := newPool(t, Options{}).Run(t.Context(), "", t.TempDir(), Job{Name: "reverse", Input: []byte("environment")})
	require.NoError(t, err)
	require.Equal(t, childEnv+"=1", strings.TrimSpace(string(out)))
}

// BenchmarkChild measures pairs of processes that do nothing: one confines itself like a child
// that compiles, and one does not. It reports the median of the differences within a pair,
// and the minimum of each kind.
func BenchmarkChild(b *testing.B) {
	measure := func(mode string) (wall, cpu time.Duration) {
		cmd := exec.Command("/proc/self/exe", mode, "kill", "")
		cmd.Dir = b.TempDir()
		began := time.Now()
		require.NoError(b, cmd.Run())
		return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	var walls, cpus, free, confined []time.Duration
	for b.Loop() {
		freeWall, freeCPU := measure("free")
		confinedWall, confinedCPU := measure("confined")
		walls, cpus = append(walls, confinedWall-freeWall), append(cpus, confinedCPU-freeCPU)
		free, confined = append(free, freeWall), append(confined, confinedWall)
	}
	report := func(name string, d time.Duration) { b.ReportMetric(float64(d.Microseconds()), name) }
	slices.Sort(walls)
	slices.Sort(cpus)
	report("median-jail-µs", walls[len(walls)/2])
	report("median-jail-cpu-µs", cpus[len(cpus)/2])
	report("min-free-µs", slices.Min(free))
	report("min-confined-µs", slices.Min(confined))
}
