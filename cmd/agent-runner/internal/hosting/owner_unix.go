//go:build unix

package hosting

import (
	"io/fs"
	"os"
	"syscall"
)

// IsOwn reports whether a file belongs to the user of this process.
func IsOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// processGone reports whether no process has the pid.
func processGone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
