//go:build !unix

package main

import "io/fs"

// isOwn reports true: temporary directories of this system belong to one user.
func isOwn(fs.FileInfo) bool { return true }
