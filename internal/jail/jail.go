// Package jail confines the current process: a Landlock ruleset bounds the files,
// TCP ports and signals that it can reach, and a seccomp filter the system calls
// that it can make. Both apply to all of its threads and to the processes that it
// starts, and neither can be undone.
package jail

import (
	"fmt"
	"strings"
)

// A Profile lists what a process is allowed to do. The kernel denies the rest. A process with the
// zero Profile can open no file, no TCP port and no UDP port, and can send signals only to processes
// that are confined with it. Files and sockets that are already open remain usable.
//
// Landlock before ABI 9 does not restrict connections to Unix sockets that have a
// path, before ABI 10 it does not restrict UDP, and it never restricts protocols derived
// from TCP, such as multipath TCP. Use Syscalls where that matters.
type Profile struct {
	// Read names the files that can be read, and the directories whose files can be read. Paths
	// that do not exist are skipped.
	Read []string
	// List names the directories that can be listed, with those below them. Their files cannot be
	// read. Paths that do not exist are skipped.
	List []string
	// Execute names the files and directories that can be read and executed. Paths that do not
	// exist are skipped.
	Execute []string
	// Write names the files that can be read and written, and the directories in which files can be read, written,
	// created, renamed and removed, and Unix sockets connected to. They have to exist.
	Write []string

	// Sockets names the Unix sockets that can be connected to, and directories with them. Paths
	// that do not exist are skipped. Before Landlock ABI 9, all Unix sockets can be connected to.
	Sockets []string

	// BindTCP and ConnectTCP are the TCP ports to listen on and to connect to.
	BindTCP, ConnectTCP []uint16
	// AnyBindTCP and AnyConnectTCP allow all TCP ports.
	AnyBindTCP, AnyConnectTCP bool
	// AnyUDP allows all UDP ports.
	AnyUDP bool

	// AnyProcess allows signals to processes outside of the jail, and connections
	// to their abstract Unix sockets.
	AnyProcess bool

	// NoLandlock disables Landlock, for a profile whose Syscalls restrict enough.
	NoLandlock bool

	// Syscalls is the seccomp filter, see [AllowSyscalls] and [DenySyscalls]. If
	// Syscalls is nil, system calls are not filtered.
	Syscalls *Filter
}

// A Report describes the protections that the kernel supports ([Support]), or those that
// [Profile.Enforce] used.
type Report struct {
	// LandlockABI is the version of Landlock. It is 0 if the kernel has none or Landlock was not
	// used.
	LandlockABI int
	// Seccomp reports whether the kernel can filter system calls, or does so for this process.
	Seccomp bool
}

// minLandlockABI is the first version that restricts files, truncation, TCP ports and signals. Missing ignores the
// protections of later versions: Unix sockets in ABI 9 and UDP in ABI 10.
const minLandlockABI = 6

// Missing names the protections that the report lacks, such as "Landlock (files, TCP
// ports and signals)". It returns "" if none is missing.
func (r Report) Missing() string {
	var missing []string
	switch abi := r.LandlockABI; {
	case abi == 0:
		missing = append(missing, "Landlock (files, TCP ports and signals)")
	case abi < 4:
		missing = append(missing, fmt.Sprintf("Landlock ABI 6 (TCP ports and signals; the kernel has ABI %d)", abi))
	case abi < minLandlockABI:
		missing = append(missing, fmt.Sprintf("Landlock ABI 6 (signals; the kernel has ABI %d)", abi))
	}
	if !r.Seccomp {
		missing = append(missing, "seccomp (system calls)")
	}
	return strings.Join(missing, ", ")
}

// Support returns the protections that the kernel supports.
func Support() Report { return support() }

// Enforce confines this process. It enforces as much of the profile as the kernel supports, and reports which
// protections are in force. After an error, the process may be confined in part. Only Linux is supported: on other
// systems, Enforce does nothing and returns a zero Report.
func (p Profile) Enforce() (Report, error) { return p.enforce() }
