//go:build unix

package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// foreignOwner tells who a file belongs to, if that is neither this process's user
// nor the one who may do anything anyway.
func foreignOwner(info fs.FileInfo) (uid int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	uid = int(stat.Uid)
	return uid, uid != os.Geteuid() && uid != 0
}
