package module

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/policy"

	sdk "github.com/extism/go-sdk"

	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// maxManifestExtra is the maximum size of a manifest, in bytes, without the module that it embeds.
const maxManifestExtra = 1 << 20

// loadManifest loads the module that an Extism manifest names. Relative paths are relative to the
// manifest's directory.
func (l *Loader) loadManifest(ctx context.Context, path string, limits policy.Limits) (*Module, error) {
	limit := cmp.Or(limits.ModuleBytes, sandbox.DefaultModuleBytes)
	b, err := readFile(path, limit*4/3+maxManifestExtra) // embedded data is in base64
	if errors.Is(err, errTooLarge) {
		return nil, refuse(path, "is too large for a manifest", "name the module with path instead of data")
	}
	if err != nil {
		return nil, err
	}
	manifest, warnings, err := extism.ParseManifest(b)
	if err != nil {
		return nil, refuse(path, "manifest: "+err.Error(), "")
	}
	limits, more := extism.LowerLimits(limits, &manifest)
	src := source{name: path, config: manifest.Config, warnings: append(warnings, more...)}
	module, err := manifestModule(path, manifest.Wasm[0], limits)
	if err != nil {
		return nil, err
	}
	return l.load(ctx, src, module, limits)
}

// manifestModule reads the module that a manifest names, and checks that it has the hash in the
// manifest.
func manifestModule(path string, entry sdk.Wasm, limits policy.Limits) ([]byte, error) {
	var b []byte
	var hash string
	var err error
	switch w := entry.(type) {
	case sdk.WasmData:
		b, hash = w.Data, w.Hash
	case sdk.WasmFile:
		file := w.Path
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		hash = w.Hash
		if b, err = readModule(file, limits); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", path, err)
		}
	default:
		return nil, refuse(path, "manifest: wasm has a url, but nothing is fetched from the network", `download it, and name it with "path"`)
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); hash != "" && !strings.EqualFold(hash, got) {
		return nil, refuse(path, fmt.Sprintf("manifest: hash is %.64s, but the module's SHA-256 is %s", hash, got),
			"correct the hash, or find out who changed the module")
	}
	return b, nil
}
