package javascript

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/fileref"
)

// canary is the content of the files that scripts must not be able to read.
const canary = fileref.Canary

// plant writes files that scripts must not be able to read, and returns their directory.
func plant(t *testing.T) string {
	t.Helper()
	dir := project(t, "")
	require.NoError(t, fileref.Plant(dir))
	return dir
}

// answerOf returns everything that the author of a script receives when it is built: the error, or
// the bundle with its source map.
func answerOf(s Source) string {
	bundle, err := Build(s)
	if err != nil {
		return err.Error()
	}
	b, _ := json.Marshal(bundle)
	return string(b) + string(bundle.Code) + mapOf(bundle)
}

// mapOf returns a bundle's source map.
func mapOf(b *Bundle) string {
	_, text, _ := strings.Cut(string(b.Code), mapMark)
	m, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	return string(m)
}

// TestUploadReadsNoFile checks that the result of building a script without files contains no text
// of the files to which the script refers, and does not depend on their existence. The scripts
// refer to a file in every way that a bundler supports.
func TestUploadReadsNoFile(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	scripts := fileref.Scripts(dir)
	answer := func(kind string) string {
		name := "guard.ts"
		if strings.HasPrefix(kind, "jsx") {
			name = "guard.tsx"
		}
		s := SourceOf(name, scripts[kind])
		s.Guarded = true // bundle in this process
		return answerOf(s)
	}
	answers := map[string]string{}
	for kind, text := range scripts {
		answers[kind] = answer(kind)
		require.NotContains(t, strings.ReplaceAll(answers[kind], text, ""), canary, kind)
		require.NotContains(t, answers[kind], noMap, kind)
	}
	require.NoError(t, os.RemoveAll(dir))
	for kind := range scripts {
		require.Equal(t, answers[kind], answer(kind), kind)
	}
}

// TestUploadName checks that a script's name is treated neither as a pattern nor as a path.
func TestUploadName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"*.ts", "**.ts", "../../x.ts", "[a].ts", "a?.ts", "etc.ts", "%2e.ts", "file:x.ts"} {
		b, err := Build(SourceOf(name, "export default { gateTool() {} };"))
		require.NoError(t, err, name)
		require.Len(t, b.Inputs, 1)
		require.Contains(t, b.Inputs, "/"+filepath.Base(name))
	}
}

// TestProjectReadsNoOtherFile checks that the result of building a project contains no text of
// files outside of the project to which the project refers.
func TestProjectReadsNoOtherFile(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	root := project(t, "-- package.json --\n{\"imports\": {\"#x\": \"./sub/x.js\"}}\n-- sub/x.js --\nexport default 1;\n")
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret.map"), filepath.Join(root, "link.map")))
	require.NoError(t, os.Symlink(dir, filepath.Join(root, "linked")))
	scripts := fileref.Scripts(dir)
	for i, u := range []string{"link.map", "linked/secret.map", "file://" + root + "/link.map"} {
		scripts[fmt.Sprintf("map of a link %d", i)] = "export default {};\n//# sourceMappingURL=" + u
	}
	for i, u := range []string{"./link.map", "./linked/secret.js", "./linked/secret.txt", "linked", "./linked"} {
		scripts[fmt.Sprintf("import of a link %d", i)] = "import x from " + jsonText(u) + "; export default x;"
	}
	scripts["computed path"] = "import(`" + strings.Repeat("../",
		40) + dir[1:] + "/${globalThis.x}.js`); export default {};"
	entry := filepath.Join(root, "guard.ts")
	for kind, text := range scripts {
		if strings.Contains(kind, "pattern") || strings.HasPrefix(kind, "glob") {
			continue // without a jail, these search the whole disk
		}
		require.NoError(t, os.WriteFile(entry, []byte(text), 0o600))
		s, err := FindSource(entry)
		require.NoError(t, err)
		require.NotContains(t, strings.ReplaceAll(answerOf(s), text, ""), canary, kind)
	}
	// esbuild reads these files without calling the plugin.
	require.NoError(t, os.WriteFile(entry, []byte(`import x from "y"; export default x;`), 0o600))
	for name, content := range map[string]string{
		"tsconfig.json": fmt.Sprintf(`{"extends": %q, "compilerOptions": {"paths": {"y": [%q]}, "baseUrl": %q}}`, dir+"/tsconfig.json", dir+"/secret.js", dir),
		"package.json":  fmt.Sprintf(`{"imports": {"#y": %q}, "browser": {"y": %q}, "main": %q}`, dir+"/secret.js", dir+"/secret.js", dir+"/secret.js"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
		s, err := FindSource(entry)
		require.NoError(t, err)
		answer := answerOf(s)
		require.NotContains(t, answer, canary, name)
		require.Contains(t, answer, `cannot find "y"`)
	}
}

// TestOwnComments checks that text that looks like a source map comment is preserved in a string
// and in the source map. It also checks that errors neither contain nor count the line that load
// appends.
func TestOwnComments(t *testing.T) {
	t.Parallel()
	b, err := Build(
		SourceOf("guard.js", "export default { x: '//# sourceMappingURL=/etc/passwd' };\n//# sourceMappingURL=guard.js.map"),
	)
	require.NoError(t, err)
	require.Contains(t, string(b.Code), `"//# sourceMappingURL=/etc/passwd"`)
	require.Contains(t, mapOf(b), `//# sourceMappingURL=guard.js.map"]`)
	for text, want := range map[string]string{
		"let x = {\n":    "guard.js:2:1: Expected identifier but found end of file",
		"let x = {":      "guard.js:1:1: Expected identifier but found end of file",
		"let x = `a":     "guard.js:1:1: Unterminated string literal",
		"/* never ended": "guard.js:1:1: Expected \"*/\" to terminate multi-line comment",
	} {
		_, err := Build(SourceOf("guard.js", text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "sourceMappingURL")
	}
}
