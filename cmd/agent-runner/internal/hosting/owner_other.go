//go:build !unix

package hosting

import "io/fs"

// IsOwn reports true: temporary directories of this system belong to one user.
func IsOwn(fs.FileInfo) bool { return true }

// processGone reports false: this system has no signal that only checks for a process.
func processGone(int) bool { return false }
