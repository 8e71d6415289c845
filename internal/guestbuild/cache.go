package guestbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agent-runner/agent-runner/internal/testcache"
)

// cached writes a guest to path. It copies the guest that the cache has for the key. If there is
// none, it calls build, which writes the guest, and then caches the guest, unless a source has
// changed during the build. The key depends on the compiler and on the content of every source.
// Concurrent processes can use the cache.
func cached(path string, key func() (string, error), build func() error) error {
	dir := testcache.Guests()
	before, err := key()
	if err != nil {
		return err
	}
	if dir != "" {
		entry := filepath.Join(dir, before)
		if b, err := os.ReadFile(entry); err == nil {
			testcache.Use(entry)
			return os.WriteFile(path, b, 0o644)
		}
	}
	if err := build(); err != nil || dir == "" {
		return err
	}
	if after, err := key(); err != nil || after != before {
		return err // a source changed during the build, so the key may not be the guest's
	}
	return store(dir, before, path)
}

// store copies a guest into the cache and removes the entries that have not been used for 30 days.
func store(dir, key, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	testcache.RemoveUnused(dir)
	temp, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(b)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(dir, key))
}

// inputs is a digest of the compiler and the sources of a guest.
type inputs struct {
	root string
	sum  hash.Hash
}

// newInputs returns the inputs that all guests have: the folder, the compiler, and the sources of
// package toolchain, which has the compiler's arguments.
func newInputs(root, folder, compiler string) (*inputs, error) {
	in := &inputs{root, sha256.New()}
	fmt.Fprintf(in.sum, "%s\n%s\n", folder, compiler)
	return in, in.addDir(filepath.Join(root, "internal", "toolchain"), false)
}

func (in *inputs) key() string { return hex.EncodeToString(in.sum.Sum(nil)) }

// addDir adds the files of a directory, or one file. deep includes the directories below it, except
// those of installed packages.
func (in *inputs) addDir(dir string, deep bool) error {
	return filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f.IsDir():
			if path != dir && (!deep || f.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		case !f.Type().IsRegular():
			return nil
		}
		return in.addFile(path)
	})
}

func (in *inputs) addFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	name, err := filepath.Rel(in.root, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(in.sum, "%x %q\n", sum.Sum(nil), name)
	return nil
}

// assemblyScriptKey returns the key of a guest. The guest's sources are in its folder and in the
// SDK. node is the folder in which npm installed the compiler; its name depends on the versions of
// the packages.
func assemblyScriptKey(root, folder, node string) (string, error) {
	in, err := newInputs(root, folder, filepath.Base(node))
	if err != nil {
		return "", err
	}
	for _, dir := range []string{folder, "guest-sdk/assemblyscript/assembly"} {
		if err := in.addDir(filepath.Join(root, filepath.FromSlash(dir)), true); err != nil {
			return "", err
		}
	}
	return in.key(), nil
}

// tinyGoKey returns the key of a guest. The guest's sources are its package and the packages that
// it imports. The standard library belongs to the compiler's version.
func tinyGoKey(ctx context.Context, root, folder, tinyGo string) (string, error) {
	compiler, err := exec.CommandContext(ctx, tinyGo, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", tinyGo, err)
	}
	in, err := newInputs(root, folder, string(compiler))
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-tags=tinygo",
		"-f", `{{if not .Standard}}{{.Dir}}{{range .EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{end}}`)
	list.Dir = filepath.Join(root, filepath.FromSlash(folder))
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", folder, err)
	}
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		if err := in.addDir(path, false); err != nil {
			return "", err
		}
	}
	return in.key(), nil
}
