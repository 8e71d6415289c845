package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/internal/fileref"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// TestProjectReadsNoOtherFile checks that commands neither print nor upload the content of a file
// outside of a project's root if a script's project names such files.
func TestProjectReadsNoOtherFile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts servers")
	}
	t.Parallel()
	outside, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, fileref.Plant(outside))
	at := func(name string) string { return filepath.Join(outside, name) }
	up := strings.Repeat("../", 40) + outside[1:]
	const script = "export default { gateTool() {} };\n"
	const imports = `import x from "y"; export default { name: String(x), gateTool() {} };`
	for name, files := range map[string]map[string]string{
		"source map":           {"guard.ts": script + "//# sourceMappingURL=" + at("secret.map")},
		"source map, relative": {"guard.ts": script + "//# sourceMappingURL=" + up + "/secret.map"},
		"source map, linked":   {"guard.ts": script + "//# sourceMappingURL=link/secret.map"},
		"source map of import": {"guard.ts": `import "./x.js";` + script, "x.js": "x = 1;\n//# sourceMappingURL=" + at("secret.map")},
		"import":               {"guard.ts": fmt.Sprintf("import x from %q; ", at("secret.js")) + script},
		"import of text":       {"guard.ts": fmt.Sprintf("import x from %q; export default { name: x, gateTool() {} };", up+"/secret.txt")},
		"import, linked":       {"guard.ts": `import x from "./link/secret.js"; export default { name: x, gateTool() {} };`},
		"import of a pattern":  {"guard.ts": "import(`" + up + "/${globalThis.x}.js`);\n" + script},
		"linked package":       {"guard.ts": imports, "node_modules/y": "-> " + outside},
		"tsconfig extends":     {"guard.ts": imports, "tsconfig.json": fmt.Sprintf(`{"extends": %q}`, at("tsconfig.json"))},
		"tsconfig paths":       {"guard.ts": imports, "tsconfig.json": fmt.Sprintf(`{"compilerOptions": {"paths": {"y": [%q]}}}`, at("secret.js"))},
		"linked tsconfig":      {"guard.ts": imports, "tsconfig.json": "-> " + at("tsconfig.json")},
		"linked package.json":  {"guard.ts": imports, "package.json": "-> " + at("package.json")},
		"package.json extends": {
			"guard.ts": imports, "package.json": fmt.Sprintf(`{"extends": %q, "name": "p"}`, at("package.json")),
		},
		"package.json browser": {
			"guard.ts": imports, "package.json": fmt.Sprintf(`{"browser": {"y": %q}}`, at("secret.js")),
		},
		"package.json imports": {
			"guard.ts":     strings.ReplaceAll(imports, `"y"`, `"#y"`),
			"package.json": fmt.Sprintf(`{"imports": {"#y": %q}}`, "./"+up+"/secret.js"),
		},
		"main of a package": {
			"guard.ts": imports, "node_modules/y/package.json": fmt.Sprintf(`{"main": %q}`, up+"/secret.js"),
		},
		"browser of a package": {"guard.ts": imports, "node_modules/y/package.json": fmt.Sprintf(`{"browser": {"./a.js": %q}, "main": "./a.js"}`, up+"/secret.js")},
		"exports of a package": {
			"guard.ts": imports, "node_modules/y/package.json": fmt.Sprintf(`{"exports": %q}`, "./"+up+"/secret.js"),
		},
		"other folder of a workspace": {
			"packages/guard/guard.ts":     `import x from "../../other/secret.js"; export default { name: x, gateTool() {} };`,
			"packages/guard/package.json": "{}",
			"package.json":                `{"workspaces": ["packages/*"]}`,
			"other/secret.js":             fmt.Sprintf("export default %q", fileref.Canary),
		},
		"pattern in a workspace": {
			"packages/guard/guard.ts":     "import x from `../../other/${globalThis.x}.js`; export default { gateTool() {} };",
			"packages/guard/package.json": "{}",
			"package.json":                `{"workspaces": ["packages/*"]}`,
			"other/secret.js":             fmt.Sprintf("export default %q", fileref.Canary),
		},
		"workspaces that do not list the project": {
			"packages/guard/guard.ts":     imports,
			"packages/guard/package.json": "{}",
			"package.json":                `{"workspaces": ["packages/other"]}`,
			"node_modules/y/index.js":     fmt.Sprintf("export default %q", fileref.Canary),
			"packages/other/package.json": "{}",
		},
		"workspaces outside": {
			"packages/guard/guard.ts":     fmt.Sprintf("import x from %q; ", at("secret.js")) + script,
			"packages/guard/package.json": "{}",
			"package.json":                fmt.Sprintf(`{"workspaces": ["packages/*", %q, %q, "link"]}`, outside, up),
		},
		"linked package of a workspace": {
			"packages/guard/guard.ts": imports, "packages/guard/package.json": "{}",
			"package.json": `{"workspaces": ["packages/*"]}`, "node_modules/y": "-> " + outside,
		},
		"tsconfig of a package": {
			"guard.ts":                     imports,
			"node_modules/y/index.ts":      "export default 1",
			"node_modules/y/tsconfig.json": fmt.Sprintf(`{"extends": %q}`, at("tsconfig.json")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			require.NoError(t, os.Symlink(outside, filepath.Join(root, "link")))
			if _, ok := files["package.json"]; !ok {
				require.NoError(t, os.WriteFile(filepath.Join(root, "package.json"), []byte("{}"), 0o600))
			}
			for file, text := range files {
				path := filepath.Join(root, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				if target, ok := strings.CutPrefix(text, "-> "); ok {
					require.NoError(t, os.Symlink(target, path))
					continue
				}
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			guard := filepath.Join(root, "guard.ts")
			if _, ok := files["guard.ts"]; !ok {
				guard = filepath.Join(root, "packages", "guard", "guard.ts")
			}
			var out bytes.Buffer
			e := &cli.Env{
				In:      strings.NewReader(""),
				Out:     &out,
				Err:     &out,
				Getenv:  func(string) string { return "" },
				Compile: &child.Options{},
			}
			execute(t.Context(), e, []string{"module", "inspect", "--cache-dir", testcache.Modules(), guard})
			require.NotEmpty(t, out.String())
			require.NotContains(t, out.String(), fileref.Canary)

			p, err := remote.ReadUpload(t.Context(), e, guard)
			if err != nil {
				require.NotContains(t, err.Error(), fileref.Canary)
				return
			}
			require.NotContains(t, contentAndMap(p.Content), fileref.Canary)
		})
	}
}

// contentAndMap returns a bundle, followed by its decoded source map.
func contentAndMap(bundle []byte) string {
	_, encoded, _ := strings.Cut(string(bundle), "sourceMappingURL=data:application/json;base64,")
	decoded, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	return string(bundle) + string(decoded)
}
