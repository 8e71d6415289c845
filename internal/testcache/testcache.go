// Package testcache is the folder in which all tests cache what takes long to make and depends only
// on its inputs: machine code of modules, and guests that slow compilers built. It is in the user's
// cache directory, so it is shared by packages, runs and clones. Deleting it is safe.
package testcache

import (
	"os"
	"path/filepath"
)

// Modules returns the directory of compiled modules, for the CacheDir of a host or loader. Hosts of
// several processes may use it concurrently. Tests of the cache itself, and those that must compile,
// use a directory of their own. Modules returns "", which disables the cache, if the user has no
// cache directory.
func Modules() string { return below("test") }

// Guests returns the directory of guests that slow compilers built, or "" if the user has no cache
// directory.
func Guests() string { return below("test-guests") }

func below(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "agent-runner", name)
}
