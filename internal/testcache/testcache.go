// Package testcache names the directories in which all tests cache machine code of modules, and
// guests that slow compilers built. They are in the user's cache directory, so packages, runs and
// clones share them. Deleting them is safe.
package testcache

import (
	"os"
	"path/filepath"
)

// Modules returns the directory of compiled modules, for the CacheDir of a host or loader. Hosts of
// several processes may use it concurrently. Tests of the cache, and tests that must compile, use
// their own directory. Modules returns "", which disables the cache, if the user has no
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
