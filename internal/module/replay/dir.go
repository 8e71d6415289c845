package replay

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

// A PackedModule is a module in the form that bundles contain. It is compressed only once, when its
// first bundle is written.
type PackedModule struct {
	Wasm []byte
	once sync.Once
	body []byte
	err  error
}

func (p *PackedModule) write(z *zip.Writer) error {
	p.once.Do(func() {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err == nil {
			_, err = w.Write(p.Wasm)
		}
		if err == nil {
			err = w.Close()
		}
		p.body, p.err = b.Bytes(), err
	})
	if p.err != nil {
		return p.err
	}
	w, err := z.CreateRaw(&zip.FileHeader{Name: "module.wasm", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(p.Wasm),
		CompressedSize64: uint64(len(p.body)), UncompressedSize64: uint64(len(p.Wasm))})
	if err == nil {
		_, err = w.Write(p.body)
	}
	return err
}

// A Dir is a directory with the newest maxBundles bundles.
type Dir struct {
	path string
	mu   sync.Mutex
}

// OpenDir returns the Dir at path. It creates the directory with mode 0700 if it is missing.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("fault directory: %w", err)
	}
	return &Dir{path: path}, nil
}

var (
	namePattern      = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-.+\.fault\.zip$`)
	unsafeCharacters = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// Write writes a bundle atomically, and removes the oldest bundles beyond maxBundles. It returns
// the path of the new bundle.
func (d *Dir) Write(b *Bundle, module *PackedModule) (path string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.CreateTemp(d.path, ".bundle-*") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = b.encode(f, module)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", err
	}
	entry := unsafeCharacters.ReplaceAllString(b.Entry, "_")
	name := fmt.Sprintf("%s-%.40s-%s-%.8s%s", b.Time.Format("20060102T150405.000000000Z"), entry, b.Call.Hook, b.Digest,
		suffix)
	path = filepath.Join(d.path, name)
	if err := os.Rename(f.Name(), path); err != nil {
		return "", err
	}
	return path, d.prune()
}

// prune removes the oldest bundles beyond maxBundles. It removes no other files.
func (d *Dir) prune() error {
	entries, err := os.ReadDir(d.path) // sorted by name, and therefore by time
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !namePattern.MatchString(e.Name()) })
	for len(entries) > maxBundles {
		if err := os.Remove(filepath.Join(d.path, entries[0].Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		entries = entries[1:]
	}
	return nil
}
