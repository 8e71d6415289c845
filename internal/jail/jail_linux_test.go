package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// attempts has the actions that a confined process can try, by name. Each runs in a child process
// with the child's arguments.
var attempts = map[string]func(args []string) error{
	"nothing": func([]string) error { return nil },
	"read": func(args []string) error {
		_, err := os.ReadFile(args[0])
		return err
	},
	"write": func(args []string) error { return os.WriteFile(args[0], []byte("x"), 0o600) },
	"rename": func(args []string) error {
		if err := os.Mkdir(filepath.Join(args[0], "dir"), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(args[0], "a"), nil, 0o600); err != nil {
			return err
		}
		return os.Rename(filepath.Join(args[0], "a"), filepath.Join(args[0], "dir", "b"))
	},
	"dial": func(args []string) error {
		conn, err := net.DialTimeout("tcp", args[0], 5*time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	},
	"udp": func(args []string) error {
		_, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
		return err
	},
	"unix": func(args []string) error {
		_, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		return err
	},
	"exec": func(args []string) error { return exec.Command("/proc/self/exe", "-h").Run() },
	"fork": func([]string) error {
		pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if errno == 0 && pid == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
		}
		return errnoError(errno)
	},
	"ptrace": func([]string) error {
		runtime.LockOSThread()
		return syscall.PtraceAttach(os.Getppid())
	},
	"signal": func([]string) error { return syscall.Kill(os.Getppid(), 0) },
	"tgkill": func([]string) error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) },
	"limits": func([]string) error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, nil, &unix.Rlimit{}) },
	"owner": func([]string) error {
		_, err := unix.FcntlInt(0, unix.F_SETOWN, os.Getppid())
		return err
	},
	// An argument equals the number of another system call with conditions that hold.
	"confused open": func(args []string) error {
		_, err := unix.Openat(0, args[0], unix.SYS_PRLIMIT64, 0)
		return err
	},
}

func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// profiles are the profiles that children confine themselves with, by name.
var profiles = map[string]func(dir string) Profile{
	"landlock": func(dir string) Profile { return Profile{} },
	"files": func(dir string) Profile {
		return Profile{
			Read:       []string{filepath.Join(dir, "read"), "/nowhere"},
			Write:      []string{filepath.Join(dir, "write")},
			AnyProcess: true,
		}
	},
	"ports": func(dir string) Profile {
		port, _ := strconv.ParseUint(os.Getenv("JAIL_PORT"), 10, 16)
		return Profile{ConnectTCP: []uint16{uint16(port)}}
	},
	"any port": func(string) Profile { return Profile{AnyConnectTCP: true, AnyBindTCP: true, AnyUDP: true} },
	"seccomp": func(string) Profile {
		return Profile{NoLandlock: true, Syscalls: must(AllowSyscalls(GoSyscalls()...))}
	},
	"read only": func(string) Profile {
		return Profile{NoLandlock: true, Syscalls: must(AllowSyscalls(append(GoSyscalls(), ReadSyscalls()...)...))}
	},
	"open": func(string) Profile { return Profile{NoLandlock: true} },
	"deny": func(string) Profile {
		return Profile{NoLandlock: true, Syscalls: must(DenySyscalls("ptrace", "execve", "execveat"))}
	},
}

func must(f *Filter, err error) *Filter {
	if err != nil {
		panic(err)
	}
	return f
}

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "jailed" {
		os.Exit(jailed(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Exit(m.Run())
}

// jailed starts several threads, enforces a profile, and then runs an attempt on each of the
// threads, or on only one for "rename". It returns the child's exit status.
func jailed(profile, attempt string, args []string) int {
	const threads = 4
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, threads)
	ready.Add(threads)
	for i := range threads {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-start
			if i == 0 || attempt != "rename" {
				errs[i] = attempts[attempt](args)
			}
		})
	}
	ready.Wait()
	report, err := profiles[profile](os.Getenv("JAIL_DIR")).Enforce()
	if err != nil {
		fmt.Println(err)
		return 2
	}
	close(start)
	done.Wait()
	fmt.Println("report", report.LandlockABI > 0, report.Seccomp)
	denied := 0
	for _, err := range errs {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSYS) {
			denied++
		} else if err != nil {
			fmt.Println(err)
			return 3
		}
	}
	switch denied {
	case 0:
		fmt.Println("allowed")
	case threads:
		fmt.Println("denied")
	default:
		fmt.Println("denied on some threads", errs)
	}
	return 0
}

// TestEnforce checks which attempts each profile denies and allows, as far as the kernel supports
// the protections.
func TestEnforce(t *testing.T) {
	t.Parallel()
	support := Support()
	dir := t.TempDir()
	for _, name := range []string{"read", "write"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "file"), nil, 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "read", "link")))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	environ := fmt.Sprintf("/proc/%d/environ", os.Getpid())

	for _, tt := range []struct {
		profile, attempt, arg string
		abi                   int // the Landlock ABI version that the case needs; -1 if it needs seccomp
		want                  string
	}{
		{"landlock", "nothing", "", 1, "allowed"},
		{"landlock", "read", "/etc/passwd", 1, "denied"},
		{"landlock", "read", environ, 1, "denied"},
		{"landlock", "read", "/proc/self/environ", 1, "denied"},
		{"landlock", "write", dir + "/write/new", 1, "denied"},
		{"landlock", "exec", "", 1, "denied"},
		{"landlock", "ptrace", "", 1, "denied"},
		{"landlock", "dial", address, 4, "denied"},
		{"landlock", "signal", "", 6, "denied"},
		{"landlock", "udp", "", 1, "allowed"}, // the attempt creates a socket but sends nothing
		{"files", "read", dir + "/read/file", 1, "allowed"},
		{"files", "read", dir + "/read/link", 1, "denied"},
		{"files", "read", dir + "/read/../write/file", 1, "allowed"},
		{"files", "write", dir + "/read/new", 1, "denied"},
		{"files", "write", dir + "/write/new", 1, "allowed"},
		{"files", "rename", dir + "/write", 2, "allowed"},
		{"files", "exec", "", 1, "denied"},
		{"files", "signal", "", 1, "allowed"},
		{"ports", "dial", address, 4, "allowed"},
		{"ports", "dial", "127.0.0.1:1", 4, "denied"},
		{"any port", "dial", address, 1, "allowed"},
		{"seccomp", "nothing", "", -1, "allowed"},
		{"seccomp", "read", "/etc/passwd", -1, "denied"},
		{"seccomp", "confused open", "/etc/passwd", -1, "denied"},
		{"seccomp", "write", dir + "/write/new", -1, "denied"},
		{"seccomp", "dial", address, -1, "denied"},
		{"seccomp", "udp", "", -1, "denied"},
		{"seccomp", "unix", "", -1, "denied"},
		{"seccomp", "exec", "", -1, "denied"},
		{"seccomp", "fork", "", -1, "denied"},
		{"seccomp", "ptrace", "", -1, "denied"},
		{"seccomp", "signal", "", -1, "denied"},
		{"seccomp", "tgkill", "", -1, "denied"},
		{"seccomp", "limits", "", -1, "denied"},
		{"seccomp", "owner", "", -1, "denied"},
		{"read only", "read", "/etc/passwd", -1, "allowed"},
		{"read only", "write", dir + "/write/new", -1, "denied"},
		{"read only", "exec", "", -1, "denied"},
		{"deny", "exec", "", -1, "denied"},
		{"deny", "read", "/etc/passwd", -1, "allowed"},
		{"deny", "udp", "", -1, "allowed"},
	} {
		t.Run(tt.profile+"/"+tt.attempt+tt.arg, func(t *testing.T) {
			if support.LandlockABI < tt.abi || tt.abi < 0 && !support.Seccomp {
				t.Skipf("this kernel has %+v", support)
			}
			cmd := exec.Command("/proc/self/exe", "jailed", tt.profile, tt.attempt, tt.arg)
			cmd.Env = append(os.Environ(), "JAIL_DIR="+dir, "JAIL_PORT="+port)
			if tt.attempt == "owner" {
				read, write, err := os.Pipe()
				require.NoError(t, err)
				defer read.Close()
				defer write.Close()
				cmd.Stdin = read
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			require.Equal(t, []string{fmt.Sprintf("report %t %t", tt.abi > 0, tt.abi < 0), tt.want}, lines)
		})
	}
}

// TestAttempts checks that the attempts that the jail denies succeed without it.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, attempt := range []string{"udp", "unix", "exec", "fork", "signal", "tgkill", "limits"} {
		cmd := exec.Command("/proc/self/exe", "jailed", "open", attempt)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", attempt, out)
		require.Contains(t, string(out), "allowed", attempt)
	}
}

func TestEnforceNeedsWritePaths(t *testing.T) {
	t.Parallel()
	if Support().LandlockABI == 0 {
		t.Skip("this kernel has no Landlock")
	}
	_, err := Profile{Write: []string{"/nowhere"}}.Enforce()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		report Report
		want   string
	}{
		{Report{LandlockABI: 7, Seccomp: true}, ""},
		{Report{LandlockABI: 5, Seccomp: true}, "Landlock ABI 6 (signals; the kernel has ABI 5)"},
		{Report{LandlockABI: 3}, "Landlock ABI 6 (TCP ports and signals; the kernel has ABI 3), seccomp (system calls)"},
		{Report{}, "Landlock (files, TCP ports and signals), seccomp (system calls)"},
	} {
		require.Equal(t, tt.want, tt.report.Missing())
	}
}
