//go:build unix

package compile

import (
	"io/fs"
	"os"
	"syscall"
)

// foreignOwner returns the owner of a file, and whether that is neither this process's user
// nor root.
func foreignOwner(info fs.FileInfo) (uid int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	uid = int(stat.Uid)
	return uid, uid != os.Geteuid() && uid != 0
}
