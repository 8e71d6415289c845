// Package npmtest installs the npm packages that tests use.
package npmtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bin returns the path of a program of the packages in testdata/npm, such as
// "mcp-server-everything". The first test that needs the packages installs them into build/npm with
// "npm ci". If npm or the packages are unavailable, it skips the test and says why, or fails if
// CI=true. With -short it skips the test.
func Bin(t testing.TB, name string) string {
	t.Helper()
	skipShort(t)
	dir, err := install()
	if err == nil {
		bin := filepath.Join(dir, "node_modules", ".bin", name)
		if _, err = os.Stat(bin); err == nil {
			return bin
		}
		err = fmt.Errorf("%w: is its package in testdata/npm/package.json?", err)
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", name, err)
	}
	t.Skipf("SKIPPED, because %s is missing: %v", name, err)
	return ""
}

// Folder returns the folder in which the packages of testdata/npm are installed, for scripts that
// import them. It skips and fails like Bin.
func Folder(t testing.TB) string {
	t.Helper()
	skipShort(t)
	dir, err := install()
	if err == nil {
		return dir
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("npm packages: %v", err)
	}
	t.Skipf("SKIPPED, because the npm packages are missing: %v", err)
	return ""
}

// Script runs a script with Node.js in Folder's folder, where its imports resolve, and returns its
// output. It fails the test if the script fails. env adds variables as "NAME=value".
func Script(t testing.TB, path string, env ...string) string {
	t.Helper()
	dir := Folder(t)
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(script)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", path, err, stderr.Bytes(), out)
	}
	return string(out)
}

// Chromium returns the path of a Chromium for playwright-core: $CHROMIUM, or the one in PATH.
// Without one, it skips the test and says why, or fails if CI=true.
func Chromium(t testing.TB) string {
	t.Helper()
	skipShort(t)
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if bin, err := exec.LookPath(name); name != "" && err == nil {
			return bin
		}
	}
	const missing = "no chromium is in PATH; install Debian's chromium, or set CHROMIUM"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("SKIPPED, since " + missing)
	return ""
}

// install calls [Install] for the packages in testdata/npm, once per process.
var install = sync.OnceValues(func() (string, error) {
	root, err := os.Getwd() // the folder of the package under test
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "testdata", "npm", "package.json")); err == nil {
			break
		}
		parent := filepath.Dir(root)
		if parent == root {
			return "", errors.New("no folder above the working directory has testdata/npm; run the tests in a clone")
		}
		root = parent
	}
	return Install(filepath.Join(root, "testdata", "npm"), filepath.Join(root, "build", "npm"))
})

// Install installs the packages that a package.json and a package-lock.json list. Both files are in
// the directory from. Install returns the directory of the packages, a subdirectory of into that is
// named by a digest of the two files. Concurrent processes are safe: one installs, the others wait.
func Install(from, into string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not in PATH; install Node.js")
	}
	files := map[string][]byte{"package.json": nil, "package-lock.json": nil}
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		files[name] = b
		sum.Write(b)
	}
	dir := filepath.Join(into, hex.EncodeToString(sum.Sum(nil))[:16])
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(into, "lock"), 5*time.Minute)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	// The packages' scripts do not run: tests need only their files.
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

// skipShort skips the test if -short is set.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs npm or a browser")
	}
}
