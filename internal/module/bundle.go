package module

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// A Bundle is a fault with all that it depended on, so that another machine can
// reproduce it. It holds what the module saw: its configuration, inputs with
// the conversation in them, and the host's replies; no keys, which modules
// never see.
type Bundle struct {
	Version int       `json:"version"` // 1
	Time    time.Time `json:"time"`
	Module  string    `json:"module"` // what it was loaded as
	Digest  string    `json:"digest"`
	Entry   string    `json:"entry"`
	Run     string    `json:"run"`
	Config  Blob      `json:"config"`
	Grants  []string  `json:"grants"`
	Limits  Limits    `json:"limits"`

	Fault BundleFault `json:"fault"`
	// Visit is the call that faulted, Earlier those that its instance served in
	// the run before, and Dropped how many of those are not there.
	Visit   Visit   `json:"visit"`
	Earlier []Visit `json:"earlier,omitempty"`
	Dropped int     `json:"dropped,omitempty"`

	Wasm []byte `json:"-"`
}

// A BundleFault is what the fault said.
type BundleFault struct {
	Stage  chain.Stage `json:"stage"`
	Cause  string      `json:"cause"`
	Limit  string      `json:"limit,omitempty"`
	Value  int64       `json:"value,omitempty"`
	Stack  []string    `json:"stack,omitempty"`
	Stderr []string    `json:"stderr,omitempty"`
	// Judged says that the module came to its end, and that the chain could not
	// apply its answer.
	Judged bool `json:"judged,omitempty"`
}

const (
	bundleVersion = 1
	bundleSuffix  = ".fault.zip"
	maxBundles    = 100      // that a directory keeps
	maxBundleJSON = 96 << 20 // that are read
)

// bundle keeps a fault. Faults that tell of the run alone, and not of the
// module, are left out: those of the breaker, of too many calls at once, and of
// the work of all calls.
func (s *session) bundle(v *visit, f *chain.Fault) {
	m := s.mw.module
	if f.Stage == chain.StageBreaker || f.Limit == "instances" || f.Limit == "run_fuel" || f.Limit == "nesting" {
		return
	}
	if !v.entered {
		v.recorder.complete(v, false)
	}
	b := &Bundle{
		Version: bundleVersion, Time: time.Now().UTC(), Module: m.Name(), Digest: m.Digest(), Entry: f.Entry, Run: s.run,
		Config: Blob(s.mw.config), Grants: s.mw.grants.Strings(), Limits: m.limits,
		Fault: BundleFault{Stage: f.Stage, Cause: f.Text(), Limit: f.Limit, Value: f.Value, Stderr: f.Stderr, Judged: v.ended == nil},
		Visit: v.recorder.visit, Earlier: v.recorder.earlier.visits, Dropped: v.recorder.earlier.dropped,
	}
	if f.Stack != "" {
		b.Fault.Stack = strings.Split(f.Stack, "\n")
	}
	path, err := m.loader.faults.write(b, m.packed)
	log := m.loader.log.With("module", m.Name(), "entry", f.Entry, "hook", string(f.Hook))
	if err != nil {
		log.Warn("a fault could not be kept", slog.Any("error", err))
		return
	}
	log.Warn("a fault was kept; agent-runner module replay reproduces it", "bundle", path)
}

// A packedModule is a module as it lies in bundles, compressed once.
type packedModule struct {
	wasm []byte
	once sync.Once
	body []byte
	err  error
}

func (p *packedModule) write(z *zip.Writer) error {
	p.once.Do(func() {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err == nil {
			_, err = w.Write(p.wasm)
		}
		if err == nil {
			err = w.Close()
		}
		p.body, p.err = b.Bytes(), err
	})
	if p.err != nil {
		return p.err
	}
	w, err := z.CreateRaw(&zip.FileHeader{Name: "module.wasm", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(p.wasm),
		CompressedSize64: uint64(len(p.body)), UncompressedSize64: uint64(len(p.wasm))})
	if err == nil {
		_, err = w.Write(p.body)
	}
	return err
}

// A faultDir is a directory of bundles, of which it keeps the newest.
type faultDir struct {
	path string
	mu   sync.Mutex
}

// openFaultDir makes the directory, which nobody else can read.
func openFaultDir(path string) (*faultDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("fault directory: %w", err)
	}
	return &faultDir{path: path}, nil
}

var (
	bundleName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-.+\.fault\.zip$`)
	unsafeName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// write writes a bundle and returns its path. It appears whole or not at all.
func (d *faultDir) write(b *Bundle, module *packedModule) (path string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.CreateTemp(d.path, ".bundle-*") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	err = b.encode(f, module)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", err
	}
	entry := unsafeName.ReplaceAllString(b.Entry, "_")
	name := fmt.Sprintf("%s-%.40s-%s-%.8s%s", b.Time.Format("20060102T150405.000000000Z"), entry, b.Visit.Hook, b.Digest, bundleSuffix)
	path = filepath.Join(d.path, name)
	if err := os.Rename(f.Name(), path); err != nil {
		return "", err
	}
	return path, d.prune()
}

// prune removes the oldest bundles, and nothing else that lies there.
func (d *faultDir) prune() error {
	entries, err := os.ReadDir(d.path) // sorted by name, and so by time
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !bundleName.MatchString(e.Name()) })
	for len(entries) > maxBundles {
		if err := os.Remove(filepath.Join(d.path, entries[0].Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		entries = entries[1:]
	}
	return nil
}

func (b *Bundle) encode(w io.Writer, module *packedModule) error {
	z := zip.NewWriter(w)
	if err := module.write(z); err != nil {
		return err
	}
	text, err := abi.Marshal(b)
	if err != nil {
		return err
	}
	part, err := z.CreateHeader(&zip.FileHeader{Name: "bundle.json", Method: zip.Deflate, Modified: b.Time})
	if err == nil {
		_, err = part.Write(text)
	}
	if err != nil {
		return err
	}
	return z.Close()
}

// ReadBundle reads a bundle, which may come from anybody. An error says what is
// wrong with it.
func ReadBundle(path string) (*Bundle, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", path, err)
	}
	defer z.Close()
	b := &Bundle{}
	text, err := readPart(z, "bundle.json", maxBundleJSON)
	if err == nil {
		_, err = abi.Decode(text, b)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read bundle %s: bundle.json: %w", path, err)
	case b.Version != bundleVersion:
		return nil, fmt.Errorf("read bundle %s: version %d; this host knows version %d", path, b.Version, bundleVersion)
	}
	if b.Wasm, err = readPart(z, "module.wasm", maxBytes); err != nil {
		return nil, fmt.Errorf("read bundle %s: module.wasm: %w", path, err)
	}
	if sum := sha256.Sum256(b.Wasm); hex.EncodeToString(sum[:]) != b.Digest {
		return nil, fmt.Errorf("read bundle %s: module.wasm has the SHA-256 %x, not %q", path, sum, short(b.Digest))
	}
	return b, nil
}

func readPart(z *zip.ReadCloser, name string, most int64) ([]byte, error) {
	f, err := z.Open(name)
	if err != nil {
		return nil, errors.New("is missing; is this a bundle of a fault?")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("has more than %d bytes", most)
	}
	return b, err
}
