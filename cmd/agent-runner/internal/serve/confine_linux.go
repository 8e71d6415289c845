package serve

import (
	"debug/elf"
	"os"
	"slices"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"

	"github.com/agent-runner/agent-runner/internal/jail"
)

// A confinement is what a server may still do once it is confined, beyond what every
// server needs.
type confinement struct {
	write   []string // directories
	sockets []string // Unix sockets; none: no such connections at all
	connect []uint16 // TCP ports; nil: all
}

// pinned are open directories and files of /proc. Landlock's rules are about inodes, and
// the kernel makes new ones of a file in /proc that nobody has open.
var pinned []int

// enforce confines this process for good.
func (c *confinement) enforce() error {
	files := slices.Concat(jail.ResolverFiles(), jail.CertificateFiles(), jail.SystemFiles())
	for _, path := range files {
		if fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0); err == nil {
			pinned = append(pinned, fd)
		}
	}
	calls, err := c.syscalls()
	if err != nil {
		return err
	}
	p := jail.Profile{
		Read: files, List: []string{"/proc"}, // in which a child finds its threads
		Execute: program(), Write: append([]string{os.DevNull}, c.write...), Sockets: c.sockets,
		ConnectTCP: c.connect, AnyConnectTCP: c.connect == nil, AnyUDP: true, Syscalls: calls,
	}
	_, err = p.Enforce()
	return err
}

// oPath is O_PATH, which package syscall lacks.
const oPath = 0x200000

// program returns this program's file, which it starts to compile modules, and the shared
// libraries if it needs such.
func program() []string {
	files := []string{"/proc/self/exe"}
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return files
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		files = append(files, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
	}
	return files
}

// Constants of Linux.
const (
	protoMPTCP = 262
	fastOpen   = 0x20000000 // MSG_FASTOPEN
	namespaces = 0x7e020080 // CLONE_NEW…
	tiocsti    = 0x5412     // types into the terminal
	tioclinux  = 0x541c
)

// syscalls returns a filter. It denies what no server does, and the ways past Landlock's
// rules: executable files without a path, files' attributes, and connections that are not
// plain TCP.
func (c *confinement) syscalls() (*jail.Filter, error) {
	denied := append(jail.AdminSyscalls(), "memfd_create", "memfd_secret", "execveat",
		"clone3",                                                        // its flags cannot be seen; callers use clone when it is missing
		"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", // Landlock is not about attributes
		"setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat",
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset")
	f, err := jail.DenySyscalls(denied...)
	if err != nil {
		return nil, err
	}
	none := func(argument uint32, values ...int) []seccomp.Condition {
		list := make([]seccomp.Condition, len(values))
		for i, value := range values {
			list[i] = seccomp.Condition{Argument: argument, Operation: seccomp.NotEqual, Value: uint64(value)}
		}
		return list
	}
	any := func(argument uint32, bits uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: bits}
	}
	families := []int{syscall.AF_INET, syscall.AF_INET6}
	if len(c.sockets) > 0 {
		families = append(families, syscall.AF_UNIX)
	}
	f.DenyIf("socket", none(0, families...)...)
	f.DenyIf("socket", none(2, 0, syscall.IPPROTO_TCP, syscall.IPPROTO_UDP)...) // not multipath TCP
	f.DenyIf("sendto", any(3, fastOpen))
	f.DenyIf("sendmsg", any(2, fastOpen))
	f.DenyIf("sendmmsg", any(3, fastOpen))
	f.DenyIf("clone", any(0, namespaces))
	const high = 0xffffffff00000000 // which the kernel ignores
	f.DenyIf("ioctl", any(1, high))
	f.DenyIf("ioctl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: tiocsti})
	f.DenyIf("ioctl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: tioclinux})
	return f, nil
}
