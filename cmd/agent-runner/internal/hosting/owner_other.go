//go:build !unix

package hosting

import "io/fs"

// isOwn reports true: temporary directories of this system belong to one user.
func isOwn(fs.FileInfo) bool { return true }
