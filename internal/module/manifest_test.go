package module

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// writeManifest writes a manifest into a directory with a copy of puppet.wasm, and returns the
// manifest's path. In text, HASH and DATA are replaced with the module's SHA-256 and with its bytes
// in base64.
func writeManifest(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(modules, "puppet.wasm"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "puppet.wasm"), b, 0o600))
	sum := sha256.Sum256(b)
	text = strings.NewReplacer("HASH", hex.EncodeToString(sum[:]), "DATA", base64.StdEncoding.EncodeToString(b)).
		Replace(text)
	path := filepath.Join(dir, "puppet.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestManifest(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for name, text := range map[string]string{
		"path": `{"wasm":[{"path":"puppet.wasm","hash":"HASH"}],"config":{"do":"w"},"memory":{"max_pages":16},"timeout_ms":250}`,
		"data": `{"wasm":[{"data":"DATA","hash":"HASH"}],"config":{"do":"w"},"memory":{"max_pages":16},"timeout_ms":250}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := l.Load(t.Context(), writeManifest(t, text), policy.Limits{})
			require.NoError(t, err)
			defer m.Close()
			require.Empty(t, m.Info().Warnings)
			require.Equal(t, int64(1<<20), m.Limits().MemoryBytes)
			require.Equal(t, 250*time.Millisecond, m.Limits().HookTime)

			start, err := open(t, configure(t, m, "")).beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, "second", start.Instruction, "the manifest's configuration")

			start, err = open(t, configure(t, m, do("."))).beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, "as it was", start.Instruction, "a configuration of one's own beats the manifest's")

			_, err = open(t, configure(t, m, do("m"))).beforeAgent(t)
			var fault *ending.FaultError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, fault, "refused memory beyond 1 MiB")

			_, err = Configure(t.Context(), m, "guard", []byte(`[]`), policy.Grants{})
			require.ErrorContains(t, err, "want an object")
		})
	}
}

func TestManifestWarnings(t *testing.T) {
	t.Parallel()
	m, err := newLoader(
		t,
	).Load(t.Context(), writeManifest(t, `{"wasm":[{"path":"puppet.wasm"}],"allowed_hosts":["*"],"allowed_paths":{"/":"/"},
		"memory":{"max_pages":4096,"max_var_bytes":1024},"timeout_ms":18446744073709551615,"wsm":1}`), policy.Limits{})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, []string{
		"the manifest's allowed_hosts grants nothing; grant hosts with http:HOST",
		"allowed_paths of the manifest is ignored: modules cannot access files",
		`manifest: unknown key "wsm"`,
		"memory.max_pages of the manifest asks for 268435456 bytes; the limit memory_bytes of 67108864 applies",
		"memory.max_var_bytes of the manifest is ignored: variables are run-local values, and their limits apply",
		fmt.Sprintf("timeout_ms of the manifest asks for %v; the limit hook_time of 1s applies",
			9223372036854*time.Millisecond),
	}, m.Info().Warnings)
	require.Equal(t, int64(sandbox.DefaultMemoryBytes), m.Limits().MemoryBytes)
	require.Equal(t, sandbox.DefaultHookTime, m.Limits().HookTime)
}

func TestManifestRefused(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for text, want := range map[string]string{
		`{"wasm":[]}`: "wasm is empty; want one module",
		`{}`:          "wasm is empty; want one module",
		`{"wasm":[{"path":"a.wasm"},{"path":"b.wasm"}]}`:  "wasm has 2 modules; a middleware is a single module",
		`{"wasm":[{"url":"https://example.com/m.wasm"}]}`: "nothing is fetched from the network",
		`{"wasm":[{"path":"puppet.wasm","hash":"00ff"}]}`: "hash is 00ff, but the module's SHA-256 is ",
		`{"wasm":[{"path":"nothing.wasm"}]}`:              "nothing.wasm: no such file",
		`{"wasm":[{"data":"AAAA"}]}`:                      "this is not a WebAssembly module",
		`{"wasm":[{"path":"puppet.wasm"}],"wasm":[]}`:     `key "wasm" is duplicated`,
		`{"wasm":7}`: "cannot unmarshal",
		`{"wasm":[{"path":"puppet.wasm"}],"config":{"a":1}}`: "cannot unmarshal",
		`[]`:   "cannot unmarshal",
		`wasm`: "not valid JSON",
	} {
		path := writeManifest(t, text)
		_, err := l.Load(t.Context(), path, policy.Limits{})
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, path)
	}
	_, err := l.Load(t.Context(), "missing.json", policy.Limits{})
	require.ErrorContains(t, err, "missing.json: no such file")
}
