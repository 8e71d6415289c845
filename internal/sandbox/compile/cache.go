package compile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// diskCache stores compiled modules between processes. An entry is a directory, named by
// Compiler.cacheKey, with the machine code that wazero wrote, the module that wazero gets
// with it (see [engine.Stub]), the facts, and a file with the entry's name and checksums.
//
// An entry is verified before it is used. Its files are as sensitive as a program: wazero maps the machine code into
// the process, a truncated file could make wazero allocate memory without bound, and the facts decide what a module
// can import. The checksums detect damage, and an entry under the name of another one. They do not detect
// manipulation by someone who can write to the directory. Only the host's own user can, and that user could modify
// the host as well. Cryptographic digests are therefore not needed. With them, hashing about 20 MB of machine code
// for a module took a fifth of the time of a start. wazero reads the code once and compares it with a checksum that
// is verified here; see [engine.ChecksumFile].
//
// Several processes can use one directory concurrently.
type diskCache struct {
	dir string
	max int64 // maximum size of all entries in bytes

	mu sync.Mutex // held during shrink
}

const (
	sumFile    = "sum" // in an entry: its name, and the checksum and path of each file
	moduleFile = "module.wasm"
	factsName  = "facts"
	tempName   = "new-" // prefix of the name of an entry that is being made
	tempTTL    = time.Hour
)

// openDiskCache opens a cache in the directory dir, which it makes if necessary. max bounds the
// size of all entries in bytes. It returns an error if this process cannot write to the directory,
// or other users could.
func openDiskCache(dir string, max int64) (*diskCache, error) {
	const fix = "choose another cache directory, or none"
	fail := func(what string, err error) (*diskCache, error) {
		return nil, fmt.Errorf("%s cache directory %s: %w; %s", what, dir, err, fix)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail("make", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fail("open", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf(
			"cache directory %s can be written by others (mode %v), who could put machine code there; chmod go-w it",
			dir,
			info.Mode().Perm(),
		)
	}
	if uid, foreign := foreignOwner(info); foreign {
		return nil, fmt.Errorf("cache directory %s belongs to user %d, who could put machine code there; chown it, or %s",
			dir, uid, fix)
	}
	probe, err := os.MkdirTemp(dir, tempName)
	if err != nil {
		return fail("write to", err)
	}
	if err := os.Remove(probe); err != nil {
		return fail("write to", err)
	}
	return &diskCache{dir: dir, max: max}, nil
}

// cacheEntry is the entry of one module in a cache.
type cacheEntry struct {
	cache *diskCache // the cache of the entry; nil for a temporary entry
	final string     // the directory of the entry, whether it exists or not
	dir   string     // the directory that wazero uses as its cache; empty until makeDir sets it

	// module and facts are set for a hit only.
	module []byte
	facts  *Facts
}

// find returns the entry with this key. The entry may be missing from the cache; its method hit
// reports that. If d is nil, the entry is temporary.
func (d *diskCache) find(key string) *cacheEntry {
	e := &cacheEntry{cache: d}
	if d == nil {
		return e
	}
	e.final = filepath.Join(d.dir, key)
	var ok bool
	if e.facts, e.module, ok = e.read(); ok {
		now := time.Now()
		_ = os.Chtimes(filepath.Join(e.final, sumFile), now, now) // so that it is evicted last
		e.dir = e.final
	}
	return e
}

// makeDir sets e.dir to a new temporary directory, in which the entry can be written. If the entry
// belongs to a cache, makeDir first removes e.final, which a damaged entry may have left.
func (e *cacheEntry) makeDir() (err error) {
	if e.cache == nil {
		e.dir, err = e.cache.tempDir()
		return err
	}
	if err := os.RemoveAll(e.final); err != nil {
		return err
	}
	e.dir, err = os.MkdirTemp(e.cache.dir, tempName)
	return err
}

// tempDir makes a temporary directory, in the cache if possible and in the system's directory for temporary files
// otherwise. If this process is killed, shrink later removes a directory in the cache, but nothing removes one
// outside of it.
func (d *diskCache) tempDir() (string, error) {
	if d != nil {
		if dir, err := os.MkdirTemp(d.dir, tempName); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "agent-runner-"+tempName)
}

// hit reports whether the entry is complete.
func (e *cacheEntry) hit() bool { return e.dir != "" && e.dir == e.final }

// read returns the facts and the module of an entry. ok is false if its files are not exactly those that were stored.
func (e *cacheEntry) read() (f *Facts, module []byte, ok bool) {
	want, err := os.ReadFile(filepath.Join(e.final, sumFile))
	if err != nil {
		return nil, nil, false
	}
	own := map[string][]byte{moduleFile: nil, factsName: nil}
	got, err := sumOf(e.final, filepath.Base(e.final), own)
	if err != nil || string(want) != got || own[moduleFile] == nil {
		return nil, nil, false
	}
	f, err = decodeFacts(own[factsName])
	return f, own[moduleFile], err == nil
}

// sumOf returns a text with the name of an entry, and the checksum and path of each of its files in
// dir. For each file whose path is a key of contents, sumOf stores the content of the file as its
// value.
func sumOf(dir, name string, contents map[string][]byte) (string, error) {
	var b strings.Builder
	fmt.Fprintln(&b, name)
	err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case name == sumFile:
			return nil
		case !f.Type().IsRegular():
			return fmt.Errorf("%s is not a file", path)
		}
		sum := xxhash.New()
		if _, wanted := contents[name]; wanted {
			if contents[name], err = os.ReadFile(path); err != nil {
				return err
			}
			_, _ = sum.Write(contents[name])
		} else if err := engine.ChecksumFile(sum, path); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x %s\n", sum.Sum(nil), filepath.ToSlash(name))
		return nil
	})
	return b.String(), err
}

// store completes a new entry, so that find returns it, with the stub of the module m that was
// compiled, or with m itself if it can have no stub. It does nothing if the entry exists. If
// another process has stored the entry in the meantime, store discards this one. Without a cache,
// it only removes the temporary entry.
func (e *cacheEntry) store(ctx context.Context, config wazero.RuntimeConfig, m *wasm.Module, f *Facts) error {
	if e.hit() {
		return nil
	}
	defer e.discard()
	if e.cache == nil {
		return nil
	}
	module := engine.Stub(m)
	switch ok, err := engine.RenameCode(ctx, config, e.dir, module, e.cache.tempDir); {
	case err != nil:
		return err
	case !ok:
		module = m.Encode()
	}
	for name, b := range map[string][]byte{moduleFile: module, factsName: f.encode()} {
		if err := os.WriteFile(filepath.Join(e.dir, name), b, 0o600); err != nil {
			return err
		}
	}
	sum, err := sumOf(e.dir, filepath.Base(e.final), nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(e.dir, sumFile), []byte(sum), 0o600); err != nil {
		return err
	}
	if err := os.Rename(e.dir, e.final); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, _, ok := e.read(); !ok {
			return err
		}
	}
	return e.cache.shrink()
}

// discard removes an entry that was not stored.
func (e *cacheEntry) discard() {
	if !e.hit() && e.dir != "" {
		_ = os.RemoveAll(e.dir) // if that fails, shrink removes the rest
	}
}

// drop removes an entry that cannot be used.
func (e *cacheEntry) drop() {
	e.discard()
	_ = os.RemoveAll(e.final) // no harm if that fails: the entry is verified before each use
}

// shrink evicts the least recently used entries until the rest is within the limit, and removes temporary directories
// of killed processes.
func (d *diskCache) shrink() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var entries []entry
	total := int64(0)
	dirs, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		path := filepath.Join(d.dir, dir.Name())
		if strings.HasPrefix(dir.Name(), tempName) {
			if info, err := dir.Info(); err == nil && time.Since(info.ModTime()) > tempTTL {
				_ = os.RemoveAll(path)
			}
			continue
		}
		info, err := os.Stat(filepath.Join(path, sumFile))
		if err != nil {
			continue // not an entry, or just removed by another process
		}
		size := sizeOf(path)
		total += size
		entries = append(entries, entry{path, size, info.ModTime()})
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= d.max {
			break
		}
		if err := os.RemoveAll(e.path); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}

// sizeOf returns the total size in bytes of the regular files below a directory, without those that cannot be read.
func sizeOf(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			if info, err := f.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
