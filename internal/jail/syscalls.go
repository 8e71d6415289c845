package jail

import (
	"slices"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
)

// A Syscall is a system call that a process can make unless all conditions in Unless
// hold. If Unless is empty, the process can always make the call.
type Syscall struct {
	Name   string
	Unless []seccomp.Condition
}

// Syscalls makes a list of system calls without conditions.
func Syscalls(names ...string) []Syscall {
	list := make([]Syscall, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	return list
}

// A Filter decides which system calls a process can make.
type Filter struct {
	// policies are the parts of the filter: a call succeeds only if all of them allow
	// it. Each has at most one call with conditions: go-seccomp-bpf 1.6 compares the
	// calls after that one with an argument rather than with the number of the call.
	policies []seccomp.Policy
}

// errnoENOSYS makes a system call fail as if the kernel did not have it.
const errnoENOSYS = seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS)

// AllowSyscalls returns a filter that lets a process make these system calls; every other one fails
// with EPERM. Names that this processor architecture does not have are skipped.
//
// Unless it is in calls, clone3 fails with ENOSYS, so that the C library uses clone,
// whose flags a filter can see.
func AllowSyscalls(calls ...Syscall) (*Filter, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	var names []string
	for _, call := range calls {
		if _, ok := machine.SyscallNames[call.Name]; !ok {
			continue
		}
		names = append(names, call.Name)
		if len(call.Unless) > 0 {
			f.DenyIf(call.Name, call.Unless...)
		}
	}
	slices.Sort(names)
	f.policies = append(f.policies, allowOnly(slices.Compact(names)))
	return f, nil
}

// DenySyscalls returns a filter that makes these system calls fail with EPERM. System calls that go-seccomp-bpf has
// no number for, and those of another architecture, such as the 32-bit ones of a 64-bit kernel, fail too.
func DenySyscalls(names ...string) (*Filter, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	var allow []string
	for name := range machine.SyscallNames {
		if !slices.Contains(names, name) {
			allow = append(allow, name)
		}
	}
	slices.Sort(allow)
	return &Filter{policies: []seccomp.Policy{allowOnly(allow)}}, nil
}

// DenyIf adds a rule to f: the system call fails with EPERM when all conditions hold. It returns f.
//
// The kernel ignores the upper 32 bits of most arguments, but a filter compares them. Conditions
// should therefore hold unless an argument has an allowed value. A process can evade a condition that
// compares an argument with a forbidden value, by setting one of the upper bits.
func (f *Filter) DenyIf(name string, conditions ...seccomp.Condition) *Filter {
	f.policies = append(f.policies, seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{{
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: name, Conditions: conditions}},
			Action:             seccomp.ActionErrno,
		}},
	})
	return f
}

// allowOnly returns a policy that allows these system calls. All others fail with EPERM, except
// that clone3 fails with ENOSYS.
func allowOnly(names []string) seccomp.Policy {
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno}
	if !slices.Contains(names, "clone3") {
		policy.Syscalls = append(policy.Syscalls, seccomp.SyscallGroup{Names: []string{"clone3"}, Action: errnoENOSYS})
	}
	policy.Syscalls = append(policy.Syscalls, seccomp.SyscallGroup{Names: names, Action: seccomp.ActionAllow})
	return policy
}

// Constants of Linux; other systems compile this file too.
const (
	cloneThread = 0x10000                    // CLONE_THREAD
	nameMemory  = 0x53564d41                 // PR_SET_VMA
	nameThread  = 15                         // PR_SET_NAME
	openWrites  = 0o1 | 0o2 | 0o100 | 0o1000 // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
)

// fcntlCommands are F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL and
// F_DUPFD_CLOEXEC. F_SETOWN would let the kernel send signals to other processes.
var fcntlCommands = []uint64{0, 1, 2, 3, 4, 1030}

// GoSyscalls returns the system calls that Go's runtime and the C library make in a
// process that computes, and reads and writes files that are already open. None of them
// opens a file or a socket, starts a process, or reaches another process.
func GoSyscalls() []Syscall {
	pid := uint64(syscall.Getpid())
	list := Syscalls(
		// open files
		"read",
		"readv",
		"write",
		"writev",
		"pread64",
		"pwrite64",
		"lseek",
		"close",
		"fstat",
		// memory
		"brk",
		"mmap",
		"munmap",
		"mremap",
		"mprotect",
		"madvise",
		"mincore",
		"munlock",
		// threads and time
		"futex",
		"exit",
		"exit_group",
		"set_robust_list",
		"set_tid_address",
		"rseq",
		"arch_prctl",
		"sched_yield",
		"sched_getaffinity",
		"getcpu",
		"membarrier",
		"restart_syscall",
		"nanosleep",
		"clock_nanosleep",
		"clock_gettime",
		"clock_getres",
		"gettimeofday",
		"time",
		// handling of signals
		"rt_sigaction",
		"rt_sigprocmask",
		"rt_sigreturn",
		"rt_sigpending",
		"rt_sigtimedwait",
		"sigaltstack",
		// the poller
		"epoll_create1",
		"epoll_ctl",
		"epoll_wait",
		"epoll_pwait",
		"eventfd2",
		"pipe2",
		"poll",
		"ppoll",
		// information about the process and the machine
		"getpid",
		"gettid",
		"getppid",
		"getuid",
		"geteuid",
		"getgid",
		"getegid",
		"getrusage",
		"getrandom",
		"uname",
		"sysinfo",
		"getcwd",
	)
	// not returns conditions that all hold if an argument has none of these values.
	not := func(argument uint32, values ...uint64) []seccomp.Condition {
		conditions := make([]seccomp.Condition, len(values))
		for i, value := range values {
			conditions[i] = seccomp.Condition{Argument: argument, Operation: seccomp.NotEqual, Value: value}
		}
		return conditions
	}
	return append(list,
		Syscall{"clone", []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsNotSet, Value: cloneThread}}},
		Syscall{"tgkill", not(0, pid)},
		Syscall{"prlimit64", not(0, 0, pid)},
		Syscall{"fcntl", not(1, fcntlCommands...)},
		Syscall{"prctl", not(0, nameMemory, nameThread)},
	)
}

// ReadSyscalls returns the system calls that read files and directories. Landlock
// decides which files.
func ReadSyscalls() []Syscall {
	return append(Syscalls("newfstatat", "statx", "faccessat", "faccessat2", "readlinkat", "getdents64"),
		Syscall{"openat", []seccomp.Condition{{Argument: 2, Operation: seccomp.BitsSet, Value: openWrites}}})
}

// WriteSyscalls returns the system calls that read, write, create, rename and remove
// files. Landlock decides which files.
func WriteSyscalls() []Syscall {
	return Syscalls("newfstatat", "statx", "faccessat", "faccessat2", "readlinkat", "getdents64", "openat",
		"mkdirat", "renameat", "renameat2", "unlinkat", "ftruncate", "fchmod", "fchmodat", "fsync", "fdatasync", "flock")
}
