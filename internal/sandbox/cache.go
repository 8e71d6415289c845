package sandbox

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

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// diskCache keeps compiled modules between processes. Each has a directory of its
// own, named by Sandbox.cacheKey. It holds the machine code that wazero wrote, the
// module that wazero is given for it (shell.go), what is known of that, and a file
// with the entry's name and the checksums of it all: wazero maps whatever lies there into the process as
// code, a file that was cut short could make it allocate without end, and what is
// known of a module is what it was verified to be. So nothing is used unchecked.
//
// The check finds what is broken, and an entry in another one's place. It does not
// find what who may write to the directory put there on purpose: that is the host's
// own user, who could as well change the host. Therefore a checksum, and no digest:
// machine code is some twenty megabytes a module, and digesting it was a fifth of
// what starting takes. The code itself is read once, by wazero, which holds it against
// a checksum that is among what is checked here (machinecode.go).
//
// Several processes may use one directory at the same time.
type diskCache struct {
	dir  string
	most int64 // bytes, of all entries

	mu sync.Mutex // for shrink
}

const (
	sumFile    = "sum" // in an entry: its name, and the checksum and path of each file
	moduleFile = "module.wasm"
	factsName  = "facts"
	tempName   = "new-" // begins the name of an entry that is being made
	tempLasts  = time.Hour
)

// openDiskCache opens or makes a cache directory, or fails if it cannot be used.
func openDiskCache(dir string, most int64) (*diskCache, error) {
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
		return nil, fmt.Errorf("cache directory %s can be written by others (mode %v), who could put machine code there; chmod go-w it", dir, info.Mode().Perm())
	}
	if uid, foreign := foreignOwner(info); foreign {
		return nil, fmt.Errorf("cache directory %s belongs to user %d, who could put machine code there; chown it, or %s", dir, uid, fix)
	}
	probe, err := os.MkdirTemp(dir, tempName)
	if err != nil {
		return fail("write to", err)
	}
	if err := os.Remove(probe); err != nil {
		return fail("write to", err)
	}
	return &diskCache{dir: dir, most: most}, nil
}

// cacheEntry is the place of one module in a cache.
type cacheEntry struct {
	cache *diskCache // nil: it is not kept
	final string     // where it is, or is to be
	dir   string     // where wazero may read and write; empty until there is room

	module []byte // of a hit
	facts  facts
}

// find finds an entry, or where it is to be.
func (d *diskCache) find(key string) *cacheEntry {
	e := &cacheEntry{cache: d}
	if d == nil {
		return e
	}
	e.final = filepath.Join(d.dir, key)
	var ok bool
	if e.facts, e.module, ok = e.read(); ok {
		now := time.Now()
		_ = os.Chtimes(filepath.Join(e.final, sumFile), now, now) // so that it is removed last
		e.dir = e.final
	}
	return e
}

// makeRoom makes room for an entry that is not there. What is there but not whole
// is removed. Without a cache there is room that is not kept.
func (e *cacheEntry) makeRoom() (err error) {
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

// tempDir makes a directory that is used for a moment. In the cache it is removed later if
// this process is killed; without one it then stays among the system's.
func (d *diskCache) tempDir() (string, error) {
	if d != nil {
		if dir, err := os.MkdirTemp(d.dir, tempName); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "agent-runner-"+tempName)
}

// hit reports whether the code is there already.
func (e *cacheEntry) hit() bool { return e.dir != "" && e.dir == e.final }

// opening is held while a directory is opened: wazero finds out its own version
// at the first, and writes it down unguarded.
var opening sync.Mutex

// openWazeroCache is a directory as wazero wants it.
func openWazeroCache(dir string) (wazero.CompilationCache, error) {
	opening.Lock()
	defer opening.Unlock()
	return wazero.NewCompilationCacheWithDir(dir)
}

// read returns what is the host's own of an entry, if that holds exactly what was
// once put there.
func (e *cacheEntry) read() (f facts, module []byte, ok bool) {
	want, err := os.ReadFile(filepath.Join(e.final, sumFile))
	if err != nil {
		return f, nil, false
	}
	own := map[string][]byte{moduleFile: nil, factsName: nil}
	got, err := sumOf(e.final, filepath.Base(e.final), own)
	if err != nil || string(want) != got || own[moduleFile] == nil {
		return f, nil, false
	}
	f, err = decodeFacts(own[factsName])
	return f, own[moduleFile], err == nil
}

// sumOf describes an entry: its name, paths and checksums of its files. Files that
// stand in contents are read.
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
		} else if err := sumMachineCode(sum, path); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x %s\n", sum.Sum(nil), filepath.ToSlash(name))
		return nil
	})
	return b.String(), err
}

// keep makes a new entry one that others find, with the shell of the module that was
// compiled, or that itself where it can have no shell.
// It does nothing if that was there already, or another process was quicker.
func (e *cacheEntry) keep(ctx context.Context, config wazero.RuntimeConfig, m *wasm.Module, f *facts) error {
	if e.hit() {
		return nil
	}
	defer e.discard()
	if e.cache == nil {
		return nil
	}
	module := shellOf(m)
	switch ok, err := e.putShell(ctx, config, module); {
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

// discard removes an entry that was not kept.
func (e *cacheEntry) discard() {
	if !e.hit() && e.dir != "" {
		_ = os.RemoveAll(e.dir) // what stays is removed by shrink
	}
}

// drop removes an entry that turned out to be of no use.
func (e *cacheEntry) drop() {
	e.discard()
	_ = os.RemoveAll(e.final) // nothing if that is empty; it is checked again before it is used
}

// shrink removes the entries that were not used for the longest time until the
// rest is within the limit, and what processes left that ended too early.
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
			if info, err := dir.Info(); err == nil && time.Since(info.ModTime()) > tempLasts {
				_ = os.RemoveAll(path)
			}
			continue
		}
		info, err := os.Stat(filepath.Join(path, sumFile))
		if err != nil {
			continue // not ours, or just removed by another process
		}
		size := sizeOf(path)
		total += size
		entries = append(entries, entry{path, size, info.ModTime()})
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= d.most {
			break
		}
		if err := os.RemoveAll(e.path); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}

// sizeOf adds up the files below a directory, as far as they can be read.
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

// cacheFailed reports whether a compilation failed for the cache's sake: the disk
// is full, or the entry was removed meanwhile.
func cacheFailed(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link) || strings.HasPrefix(err.Error(), "compilationcache:")
}
