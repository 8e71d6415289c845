//go:build !unix

package compile

import "io/fs"

// foreignOwner reports no foreign owner: on this system access control lists decide who can write
// to a directory.
func foreignOwner(fs.FileInfo) (uid int, foreign bool) { return 0, false }
