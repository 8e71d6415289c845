package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// detect returns the kind of an upload as a file name for the loader, the module in it, and
// warnings about settings that are ignored. WebAssembly and JSON manifests are recognized by their
// content, scripts by their content type.
func detect(content []byte, contentType string) (name string, module []byte, warnings []string, err error) {
	if bytes.HasPrefix(content, []byte("\x00asm")) {
		return "module.wasm", content, nil, nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/typescript", "text/typescript", "text/x-typescript":
		return "module.ts", content, nil, nil
	case "application/javascript", "text/javascript", "text/x-javascript":
		return "module.js", content, nil, nil
	}
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '{' {
		module, warnings, err = readManifest(trimmed)
		return "module.wasm", module, warnings, err
	}
	return "", nil, nil, httpapi.NewProblem(
		api.CodeRefused,
		"not WebAssembly (which starts with \\0asm) and not an Extism manifest; a script needs the header Content-Type: application/typescript, or application/javascript",
	)
}

// readManifest returns the module of an Extism manifest. It ignores the manifest's settings, so that
// a module has the same digest in every manifest, and warns that the agent file must set them.
func readManifest(b []byte) (module []byte, warnings []string, err error) {
	var m struct {
		Wasm []struct {
			Data []byte `json:"data"`
			Hash string `json:"hash"`
			Path string `json:"path"`
			URL  string `json:"url"`
		} `json:"wasm"`
		Config map[string]string `json:"config"`
		Hosts  []string          `json:"allowed_hosts"`
		Memory json.RawMessage   `json:"memory"`
		Time   json.RawMessage   `json:"timeout_ms"`
	}
	if err := httpapi.DecodeJSON(b, &m); err != nil {
		return nil, nil, httpapi.NewProblem(api.CodeRefused, "manifest: %v", err)
	}
	if len(m.Wasm) != 1 {
		return nil, nil, httpapi.NewProblem(api.CodeRefused, "manifest: wasm has %d modules; want one", len(m.Wasm))
	}
	w := m.Wasm[0]
	if w.Path != "" || w.URL != "" || len(w.Data) == 0 {
		return nil, nil, httpapi.NewProblem(api.CodeRefused,
			`manifest: want the module in the manifest, as "data" in base64: the server does not fetch paths or URLs`)
	}
	sum := sha256.Sum256(w.Data)
	if got := hex.EncodeToString(sum[:]); w.Hash != "" && !strings.EqualFold(got, w.Hash) {
		return nil, nil, httpapi.NewProblem(api.CodeRefused, "manifest: hash mismatch: the module's SHA-256 is %s", got)
	}
	if len(m.Config) > 0 {
		warnings = append(warnings, "the manifest's config is ignored: set config in agent.yaml")
	}
	if len(m.Hosts) > 0 {
		warnings = append(warnings, "the manifest's allowed_hosts are ignored: grant http:HOST in agent.yaml")
	}
	if len(m.Memory) > 0 || len(m.Time) > 0 {
		warnings = append(warnings, "the manifest's limits are ignored: set limits in agent.yaml")
	}
	return w.Data, warnings, nil
}
