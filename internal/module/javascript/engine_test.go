package javascript

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestEngine checks that the engine has the imports and exports of a native module, and that its
// instances can be reset.
func TestEngine(t *testing.T) {
	t.Parallel()
	m, err := wasm.Decode(Engine(), wasm.DefaultLimits())
	require.NoError(t, err)
	require.Empty(t, m.ResetObstacles())
	for _, imp := range m.Imports {
		require.Contains(t, []string{contract.ImportModule, ImportModule, "wasi_snapshot_preview1"}, imp.Module, imp.Name)
	}
	own := []string{"memory", "_initialize", ExportStart, ExportLoad, ExportPack}
	for _, h := range contract.Hooks() {
		own = append(own, string(h))
	}
	var exports []string
	for _, e := range m.Exports {
		exports = append(exports, e.Name)
	}
	require.ElementsMatch(t, own, exports)
}

// TestVendored checks that quickjs.wasm has the hash in build.sh, and that glue.wasm is what
// build.sh compiles.
func TestVendored(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("engine/build.sh")
	require.NoError(t, err)
	sum := sha256.Sum256(quickjs)
	require.Contains(t, string(script), "\nengine="+hex.EncodeToString(sum[:])+"\n")

	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Skip("SKIPPED, since clang is not there")
	}
	version, err := exec.CommandContext(t.Context(), clang, "--version").Output()
	require.NoError(t, err)
	if !strings.Contains(string(version), "version 14.0.6") {
		t.Skipf("SKIPPED, since another clang may write other code: %s", version)
	}
	dir := t.TempDir()
	for _, name := range []string{"build.sh", "glue.c", "abi.h", "json.h", "quickjs.wasm"} {
		b, err := os.ReadFile(filepath.Join("engine", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o700))
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "build.sh")).CombinedOutput()
	if err != nil && strings.Contains(string(out), "wasm-ld") {
		t.Skipf("SKIPPED, since lld is not there: %s", out)
	}
	require.NoError(t, err, "%s", out)
	got, err := os.ReadFile(filepath.Join(dir, "glue.wasm"))
	require.NoError(t, err)
	require.Equal(t, glue, got, "run engine/build.sh")
}
