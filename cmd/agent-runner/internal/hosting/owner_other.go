//go:build !unix

package hosting

import "io/fs"

// IsOwn reports true: temporary directories of this system belong to one user.
func IsOwn(fs.FileInfo) bool { return true }

// processGone reports false, because this system cannot check for a process with a signal.
func processGone(int) bool { return false }
