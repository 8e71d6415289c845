package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	extism "github.com/extism/go-sdk"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// maxManifestExtra is how much larger than the module in it a manifest may be.
const maxManifestExtra = 1 << 20

// loadManifest loads the module that an Extism manifest names. A path in it
// is relative to the manifest.
func (l *Loader) loadManifest(ctx context.Context, path string, limits Limits) (*Module, error) {
	most := limits.ModuleBytes
	def(&most, sandbox.DefaultModuleBytes)
	b, err := readFile(path, most*4/3+maxManifestExtra) // data is in base64
	if errors.Is(err, errTooLarge) {
		return nil, refuse(path, "is too large for a manifest", "name the module with path instead of data")
	}
	if err != nil {
		return nil, err
	}
	manifest, warnings, err := parseManifest(b)
	if err != nil {
		return nil, refuse(path, "manifest: "+err.Error(), "")
	}
	src := source{name: path, config: manifest.Config, warnings: warnings}
	limits = src.lower(limits, &manifest)
	module, err := manifestModule(path, manifest.Wasm[0], limits)
	if err != nil {
		return nil, err
	}
	return l.load(ctx, src, module, limits)
}

func parseManifest(b []byte) (m extism.Manifest, warnings []string, err error) {
	if err := abi.Valid(b); err != nil {
		return m, nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, nil, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return m, nil, errors.New("want an object")
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch key {
		case "wasm", "memory", "config", "timeout_ms":
		case "allowed_hosts":
			if len(m.AllowedHosts) > 0 {
				warnings = append(warnings, "allowed_hosts of the manifest grants nothing: an operator grants hosts, as http:HOST")
			}
		case "allowed_paths":
			if len(m.AllowedPaths) > 0 {
				warnings = append(warnings, "allowed_paths of the manifest is ignored: modules reach no files")
			}
		default:
			warnings = append(warnings, fmt.Sprintf("manifest: unknown key %q", short(key)))
		}
	}
	switch len(m.Wasm) {
	case 0:
		return m, nil, errors.New(`wasm is empty; want one module: "wasm": [{"path": "module.wasm"}]`)
	case 1:
		return m, warnings, nil
	default:
		return m, nil, fmt.Errorf("wasm has %d modules; a middleware is one: link them before", len(m.Wasm))
	}
}

// manifestModule reads the module, and compares its hash.
func manifestModule(path string, entry extism.Wasm, limits Limits) ([]byte, error) {
	var b []byte
	var hash string
	var err error
	switch w := entry.(type) {
	case extism.WasmData:
		b, hash = w.Data, w.Hash
	case extism.WasmFile:
		file := w.Path
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		hash = w.Hash
		if b, err = readModule(file, limits); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", path, err)
		}
	default:
		return nil, refuse(path, "manifest: wasm names a url, and nothing is fetched from the network", `download it, and name it with "path"`)
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); hash != "" && !strings.EqualFold(hash, got) {
		return nil, refuse(path, fmt.Sprintf("manifest: hash is %s, but the module's SHA-256 is %s", short(hash), got), "correct the hash, or find out who changed the module")
	}
	return b, nil
}

// lower applies a manifest's limits where they are stricter, and tells where
// they are not.
func (s *source) lower(l Limits, m *extism.Manifest) Limits {
	if m.Memory != nil && m.Memory.MaxPages > 0 {
		most := l.MemoryBytes
		def(&most, sandbox.DefaultMemoryBytes)
		asked := int64(m.Memory.MaxPages) * 64 << 10
		if asked > most {
			s.warnings = append(s.warnings, fmt.Sprintf("memory.max_pages of the manifest asks for %d bytes; the limit memory_bytes of %d holds", asked, most))
		}
		l.MemoryBytes = min(asked, most)
	}
	if m.Memory != nil && m.Memory.MaxVarBytes >= 0 {
		s.warnings = append(s.warnings, "memory.max_var_bytes of the manifest is ignored: variables are run-local values, whose limits hold")
	}
	if m.Timeout > 0 {
		most := l.HookTime
		def(&most, sandbox.DefaultHookTime)
		asked := time.Duration(min(m.Timeout, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
		if asked > most {
			s.warnings = append(s.warnings, fmt.Sprintf("timeout_ms of the manifest asks for %v; the limit hook_time of %v holds", asked, most))
		}
		l.HookTime = min(asked, most)
	}
	return l
}

// def gives a field that is zero its default.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
