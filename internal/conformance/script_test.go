package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// TestTypesOfScripts checks that the TypeScript compiler accepts the types in the cases' modules.
func TestTypesOfScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs tsc")
	}
	t.Parallel()
	scripts := map[string]string{}
	for _, c := range goldenCases(t) {
		for name, source := range c.Scripts {
			scripts[c.Name+"."+name+".ts"] = string(source)
		}
	}
	compileScripts(t, scripts)
}

// compileScripts checks that tsc accepts scripts, which maps file names to source texts. If tsc
// cannot be installed, compileScripts fails the test in CI and skips it elsewhere.
func compileScripts(t *testing.T, scripts map[string]string) {
	t.Helper()
	sdk, err := filepath.Abs(filepath.Join(root, "guest-sdk", "typescript"))
	require.NoError(t, err)
	packages, err := npmtest.Install(filepath.Join(sdk, "testdata", "npm"), filepath.Join(root, "build", "npm"))
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, since tsc is not there: %v", err)
	}
	require.NoError(t, err)
	dir := t.TempDir()
	for name, source := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600))
	}
	config, err := json.Marshal(map[string]any{
		"extends": filepath.Join(sdk, "testdata", "tsconfig.json"),
		"compilerOptions": map[string]any{
			"paths": map[string][]string{"@agent-runner/middleware": {filepath.Join(sdk, "index.d.ts")}},
			"types": []string{filepath.Join(sdk, "globals.d.ts")},
		},
		"include": []string{"*.ts"},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tsconfig.json"), config, 0o600))
	out, err := exec.CommandContext(t.Context(), filepath.Join(packages, "node_modules", ".bin", "tsc"), "-p", dir).
		CombinedOutput()
	require.NoError(t, err, "%s", out)
}
