package serve

import (
	"debug/elf"
	"os"
	"slices"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"

	"github.com/agent-runner/agent-runner/internal/jail"
)

// A confinement lists the access that a confined server keeps in addition to what every
// server needs.
type confinement struct {
	write   []string // directories
	sockets []string // Unix sockets; if empty, no Unix connections
	connect []uint16 // TCP ports; nil allows all
}

// pinned keeps directories and files of /proc open. Landlock's rules apply to inodes, and
// the kernel creates a new inode when a file in /proc that is not open is opened again.
var pinned []int

// enforce confines this process. It cannot be undone.
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
		Read: files, List: []string{"/proc"}, // a child lists its threads there
		Execute: program(), Write: append([]string{os.DevNull}, c.write...), Sockets: c.sockets,
		ConnectTCP: c.connect, AnyConnectTCP: c.connect == nil, AnyUDP: true, Syscalls: calls,
	}
	_, err = p.Enforce()
	return err
}

// oPath is O_PATH, which package syscall does not define.
const oPath = 0x200000

// program returns the file of this program, which the server starts to compile modules,
// and the shared libraries that it needs.
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

// Linux constants for the seccomp filter.
const (
	protoMPTCP = 262
	fastOpen   = 0x20000000 // MSG_FASTOPEN
	namespaces = 0x7e020080 // CLONE_NEW…
	tiocsti    = 0x5412     // types into the terminal
	tioclinux  = 0x541c
)

// syscalls returns the seccomp filter. It denies system calls that no server uses and those that
// evade Landlock: executing files without a path, changing file attributes, and connections other
// than TCP and UDP. If c.sockets is not empty, the filter also allows Unix sockets.
func (c *confinement) syscalls() (*jail.Filter, error) {
	denied := append(
		jail.AdminSyscalls(),
		"memfd_create",
		"memfd_secret",
		"execveat",
		"clone3", // a filter cannot read its flags; callers fall back to clone
		"chmod",
		"fchmodat",
		"fchmodat2",
		"chown",
		"lchown",
		"fchownat", // Landlock does not cover attributes
		"setxattr",
		"lsetxattr",
		"setxattrat",
		"removexattr",
		"lremovexattr",
		"removexattrat",
		"setuid",
		"setgid",
		"setreuid",
		"setregid",
		"setresuid",
		"setresgid",
		"setgroups",
		"setfsuid",
		"setfsgid",
		"capset",
	)
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
	f.DenyIf("socket", none(2, 0, syscall.IPPROTO_TCP, syscall.IPPROTO_UDP)...) // no multipath TCP
	f.DenyIf("sendto", any(3, fastOpen))
	f.DenyIf("sendmsg", any(2, fastOpen))
	f.DenyIf("sendmmsg", any(3, fastOpen))
	f.DenyIf("clone", any(0, namespaces))
	const high = 0xffffffff00000000 // bits that the kernel ignores
	f.DenyIf("ioctl", any(1, high))
	f.DenyIf("ioctl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: tiocsti})
	f.DenyIf("ioctl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: tioclinux})
	return f, nil
}
