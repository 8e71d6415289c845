package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// maxUpload is the maximum size of an uploaded file, in bytes. The server has its own
// limit.
const maxUpload = 256 << 20

// An upload is a module prepared for upload.
type upload struct {
	path, name string // name is the file name without extension
	kind       string // media type
	Content    []byte
	digest     string // the digest under which the server stores it
}

// ReadUpload reads a module from a .wasm file, a script with its imports, a source
// folder, which it builds, or an Extism manifest.
func ReadUpload(ctx context.Context, e *cli.Env, path string) (*upload, error) {
	path, err := hosting.Buildable(ctx, e, path)
	if err != nil {
		return nil, err
	}
	p := &upload{path: path, kind: "application/wasm"}
	p.name = strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	switch {
	case javascript.IsScript(path):
		err = p.bundle(ctx, e)
	case strings.EqualFold(filepath.Ext(path), ".json"):
		err = p.manifest()
	default:
		if p.Content, err = cli.ReadFile(path, maxUpload); err == nil && !bytes.HasPrefix(p.Content, []byte("\x00asm")) {
			err = cli.Usagef(
				"%s is not WebAssembly, which begins with \\0asm; other modules are scripts (%s), source folders, and Extism manifests (.json)",
				path,
				".ts, .mts, .js, .mjs",
			)
		}
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(p.Content)
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	return p, nil
}

// bundle bundles a script and its imports into one script.
func (p *upload) bundle(ctx context.Context, e *cli.Env) error {
	h, _, err := hosting.NewHost(ctx, e, false, host.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer hosting.CloseHost(h)
	p.kind = "application/javascript"
	if p.Content, err = h.Loader().BundleScript(ctx, p.path); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// manifest reads the module that an Extism manifest names, and checks its hash. It ignores the
// manifest's configuration, hosts and limits, which agent files set. If the manifest does not name
// exactly one module, the content to upload is the manifest itself, and the server reports the error.
func (p *upload) manifest() error {
	b, err := cli.ReadFile(p.path, maxUpload)
	if err != nil {
		return err
	}
	var m struct {
		Wasm []struct {
			Path string `json:"path"`
			Hash string `json:"hash"`
		} `json:"wasm"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return cli.Usagef("%s is not an Extism manifest: %w", p.path, err)
	}
	if len(m.Wasm) != 1 || m.Wasm[0].Path == "" {
		p.kind, p.Content = "application/vnd.extism.manifest+json", b // the server reports the error
		return nil
	}
	at := m.Wasm[0].Path
	if !filepath.IsAbs(at) {
		at = filepath.Join(filepath.Dir(p.path), at)
	}
	if p.Content, err = cli.ReadFile(at, maxUpload); err != nil {
		return cli.Usagef("%s: its module: %w", p.path, err)
	}
	sum := sha256.Sum256(p.Content)
	if got := hex.EncodeToString(sum[:]); m.Wasm[0].Hash != "" && !strings.EqualFold(got, m.Wasm[0].Hash) {
		return cli.Usagef("%s: hash mismatch: the SHA-256 of %s is %s", p.path, at, got)
	}
	return nil
}

func (p *upload) upload(name, version string, progress func(api.Progress)) *client.Upload {
	return &client.Upload{
		Name:     name,
		Version:  version,
		Type:     p.kind,
		Body:     bytes.NewReader(p.Content),
		Size:     int64(len(p.Content)),
		Progress: progress,
	}
}
