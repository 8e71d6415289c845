package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// diskCache keeps machine code between processes. Each module has a directory of
// its own, named by the digest of the module as it was compiled, after metering.
// It holds what wazero wrote, and a file with the digest of that: wazero maps
// whatever lies there into the process as code, and a file that was cut short
// could make it allocate without end, so nothing is shown to it unchecked.
//
// Several processes may use one directory at the same time.
type diskCache struct {
	dir  string
	most int64 // bytes, of all entries

	mu sync.Mutex // for shrink
}

const (
	sumFile   = "sum"  // in an entry: digest and path of wazero's file
	tempName  = "new-" // begins the name of an entry that is being made
	tempLasts = time.Hour
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
	dir   string     // where wazero may read and write
}

// entry finds a module's machine code, or makes room for it. What is there but
// not whole is removed. Without a cache there is room that is not kept.
func (d *diskCache) entry(module []byte) (*cacheEntry, error) {
	if d == nil {
		dir, err := os.MkdirTemp("", "agent-runner-"+tempName)
		return &cacheEntry{dir: dir}, err
	}
	sum := sha256.Sum256(module)
	e := &cacheEntry{cache: d, final: filepath.Join(d.dir, hex.EncodeToString(sum[:]))}
	if e.whole() {
		now := time.Now()
		_ = os.Chtimes(filepath.Join(e.final, sumFile), now, now) // so that it is removed last
		e.dir = e.final
		return e, nil
	}
	if err := os.RemoveAll(e.final); err != nil {
		return nil, err
	}
	var err error
	e.dir, err = os.MkdirTemp(d.dir, tempName)
	return e, err
}

// hit reports whether the code is there already.
func (e *cacheEntry) hit() bool { return e.dir == e.final }

// opening is held while an entry is opened: wazero finds out its own version
// at the first, and writes it down unguarded.
var opening sync.Mutex

// open is the entry as wazero wants it.
func (e *cacheEntry) open() (wazero.CompilationCache, error) {
	opening.Lock()
	defer opening.Unlock()
	return wazero.NewCompilationCacheWithDir(e.dir)
}

// whole reports whether an entry holds exactly what was once put there.
func (e *cacheEntry) whole() bool {
	want, err := os.ReadFile(filepath.Join(e.final, sumFile))
	if err != nil {
		return false
	}
	got, err := sumOf(e.final)
	return err == nil && string(want) == got
}

// sumOf describes the files of an entry: paths and digests.
func sumOf(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f.IsDir(), filepath.Dir(path) == filepath.Clean(dir) && f.Name() == sumFile:
			return nil
		case !f.Type().IsRegular():
			return fmt.Errorf("%s is not a file", path)
		}
		digest := sha256.New()
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		if _, err := io.Copy(digest, in); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%x %s\n", digest.Sum(nil), filepath.ToSlash(name))
		return err
	})
	return b.String(), err
}

// keep makes a new entry one that others find. It does nothing if that was there
// already, or another process was quicker.
func (e *cacheEntry) keep() error {
	if e.hit() {
		return nil
	}
	defer e.discard()
	if e.cache == nil {
		return nil
	}
	sum, err := sumOf(e.dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(e.dir, sumFile), []byte(sum), 0o600); err != nil {
		return err
	}
	if err := os.Rename(e.dir, e.final); err != nil && !errors.Is(err, fs.ErrExist) && !e.whole() {
		return err
	}
	return e.cache.shrink()
}

// discard removes an entry that was not kept.
func (e *cacheEntry) discard() {
	if !e.hit() {
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
