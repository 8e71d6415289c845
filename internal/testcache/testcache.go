// Package testcache names the directories in which tests and the conformance kit cache what is slow
// to build: machine code of modules, guests, and the modules of the golden cases. They are in the
// user's cache directory, so packages, runs and clones share them. Deleting them is safe.
package testcache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// maxAge is the time after its last use at which RemoveUnused removes an entry.
const maxAge = 30 * 24 * time.Hour

// maxCodeAge is the time after its last use at which machine code is removed. It is shorter than
// maxAge, because each version of the pipeline has up to 1 GB of machine code.
const maxCodeAge = 3 * 24 * time.Hour

// pipeline lists the directories whose code determines the machine code of a module.
var pipeline = []string{
	"internal/wasm", "internal/sandbox/compile", "internal/sandbox/engine", "internal/sandbox/image",
	"internal/sandbox/verify",
}

// Modules returns the directory of compiled modules, for the CacheDir of a host or loader. Its name contains a digest
// of the pipeline's sources, so tests never use the output of other code, and the version that wazeroVersion returns.
// Hosts of several processes may use it concurrently. Tests of the cache, and tests that must compile, use their own
// directory. Modules returns "", which disables the cache, if the user has no cache directory or the working
// directory is outside the repository.
var Modules = sync.OnceValue(func() string {
	all := below("test-modules")
	sources, err := digest()
	if all == "" || err != nil {
		return ""
	}
	dir := filepath.Join(all, sources+"-"+wazeroVersion())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	Use(dir)
	removeOlder(all, maxCodeAge)
	return dir
})

// wazeroVersion returns wazero's version, or "dev" if the build information of this process does not have it. A
// program and the test of a program have the versions of their dependencies; the test of a library does not. wazero
// writes its version into the path of machine code and ignores code of other versions. If programs and tests shared a
// directory, each would therefore remove what the other compiled.
func wazeroVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/tetratelabs/wazero" {
				return dep.Version
			}
		}
	}
	return "dev"
}

// Guests returns the directory of guests that slow compilers built, or "" if the user has no cache
// directory.
func Guests() string { return below("test-guests") }

// Cases returns the directory of the modules that the conformance kit built from its cases, or ""
// if the user has no cache directory.
func Cases() string { return below("tck") }

// Use records that an entry of a cache was used.
func Use(entry string) {
	now := time.Now()
	_ = os.Chtimes(entry, now, now)
}

// RemoveUnused removes the entries of a directory that have not been used for 30 days.
func RemoveUnused(dir string) { removeOlder(dir, maxAge) }

func removeOlder(dir string, age time.Duration) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > age {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

func below(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "agent-runner", name)
}

// digest returns a digest of the pipeline's sources. It searches for them in the working directory
// and then in each directory above it.
func digest() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(pipeline[0]))); err == nil {
			return digestOf(dir)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no %s above the working directory", pipeline[0])
		}
		dir = up
	}
}

// digestOf returns the digest of the pipeline's sources below the repository's root, without tests.
func digestOf(root string) (string, error) {
	sum := sha256.New()
	for _, folder := range pipeline {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
		if err != nil {
			return "", err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n%s", folder, filepath.Base(path), len(b), b)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}
