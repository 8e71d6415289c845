package javascript

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// canary is in every file that no script can read.
const canary = "canary-4711"

// plant writes files that a bundler would read, parse, quote or embed, each with the
// canary, and returns their directory.
func plant(t *testing.T) string {
	t.Helper()
	return project(t, fmt.Sprintf(`
-- secret --
%[1]s=1
-- secret.map --
{"version": 3, "sources": ["%[1]s"], "sourcesContent": ["%[1]s"], "names": [], "mappings": "AAAA"}
-- secret.js --
export default "%[1]s";
-- secret.ts --
export default "%[1]s"; )
-- secret.json --
"%[1]s"
-- secret.txt --
%[1]s
-- package.json --
{"%[1]s" "exports"
-- tsconfig.json --
{"%[1]s"
`, canary))
}

// spellings are scripts that name files below a directory. Keys name the script.
func spellings(dir string) map[string]string {
	scripts := map[string]string{}
	add := func(kind, text string) {
		if !strings.Contains(text, "export default") {
			text += "\nexport default { gateTool() {} };\n"
		}
		scripts[kind] = text
	}
	up := strings.Repeat("../", 40)
	for _, name := range []string{"secret", "secret.map", "secret.json"} {
		path := filepath.Join(dir, name)
		escaped := strings.ReplaceAll(path, "/", "%2F")
		urls := []string{
			path, up + path[1:], "." + "/" + up + path[1:], "file://" + path, "file:" + path, "FILE://" + path, "file://localhost" + path, "//localhost" + path,
			escaped, strings.ReplaceAll(up, "/", "%2f") + escaped[3:], "file://" + "/%2e%2e" + path, path + "?x", path + "#x", "file://" + path + "?x",
			strings.ReplaceAll(path, "/", "\\"), strings.ReplaceAll(path, "s", "%73"), "/.." + path, "//" + path, path + "%00", "%20" + path,
		}
		for i, u := range urls {
			for j, comment := range []string{"//# sourceMappingURL=%s", "//@ sourceMappingURL=%s", "/*# sourceMappingURL=%s */", "/*@ sourceMappingURL=%s*/", "//# sourceMappingURL=%s //# sourceMappingURL=" + u,
				"/*\n*/ //# sourceMappingURL=%s", "//#  sourceMappingURL=%s", "//# sourceURL=%s", "<!--# sourceMappingURL=%s"} {
				if name != "secret" && i*j > 0 {
					continue
				}
				c := fmt.Sprintf(comment, u)
				add(fmt.Sprintf("map %s %d %d end", name, i, j), "export default { gateTool() {} };\n"+c)
				if i == 0 {
					add(fmt.Sprintf("map %s %d %d start", name, i, j), c+"\nexport default { gateTool() {} };")
					add(fmt.Sprintf("map %s %d %d mistake", name, i, j), "let x = ;\n"+c)
				}
			}
			if i > 3 {
				continue // the plugin sees the paths of imports, whatever they are
			}
			q := jsonText(u)
			for kind, text := range map[string]string{
				"import": "import x from %s; console.log(x);", "bare": "import %s;", "all": "import * as x from %s; console.log(x);", "export": "export * from %s;",
				"dynamic": "import(%s);", "require": "require(%s);", "resolve": "require.resolve(%s);", "type": "import type x from %s;",
				"json": "import x from %s with {type: 'json'}; console.log(x);", "text": "import x from %s with {type: 'text'}; console.log(x);",
				"bytes": "import x from %s with {type: 'bytes'}; console.log(x);", "file": "import x from %s with {type: 'file'}; console.log(x);",
				"assert": "import x from %s assert {type: 'json'}; console.log(x);", "url": "new URL(%s, import.meta.url);", "worker": "new Worker(new URL(%s, import.meta.url));",
				"defer": "import defer * as x from %s; console.log(x);", "source": "import source x from %s; console.log(x);", "caught": "try { require(%s) } catch {}",
				"glob": "import(%s + x);", "glob2": "require(%s + x + '.json');", "equals": "import x = require(%s); console.log(x);",
			} {
				add(fmt.Sprintf("%s %s %d", kind, name, i), fmt.Sprintf(text, q))
			}
			add(fmt.Sprintf("jsx %s %d", name, i), "/** @jsxImportSource "+u+" */ /** @jsxRuntime automatic */\nconst x = <a/>;")
			add(fmt.Sprintf("reference %s %d", name, i), `/// <reference path=`+q+` />`)
			for j, m := range []map[string]any{
				{"version": 3, "sources": []string{u}, "names": []string{}, "mappings": "AAAA"},
				{"version": 3, "sourceRoot": "file://" + dir, "sources": []string{name}, "names": []string{}, "mappings": "AAAA"},
				{"version": 3, "file": u, "sections": []any{map[string]any{"offset": map[string]int{"line": 0, "column": 0}, "url": u}}},
			} {
				b, _ := json.Marshal(m)
				add(fmt.Sprintf("data %s %d %d", name, i, j), "export default { gateTool() {} };\n//# sourceMappingURL=data:application/json;base64,"+base64.StdEncoding.EncodeToString(b))
				add(fmt.Sprintf("data escaped %s %d %d", name, i, j), "export default { gateTool() {} };\n//# sourceMappingURL=data:application/json,"+url.PathEscape(string(b)))
			}
		}
	}
	// Patterns, from which esbuild searches directories.
	in := "./" + up + dir[1:]
	for i, pattern := range []string{"`" + in + "/${x}`", "`" + in + "/${x}.json`", "`" + in + "/${x}/secret.js`", "'" + in + "/' + x", "`./${x}`", "`../${x}.ts`", "`" + in + "/sec${x}.txt`", "`" + in + "/no${x}`"} {
		add(fmt.Sprintf("import pattern %d", i), "const x = globalThis.y; import("+pattern+");")
		add(fmt.Sprintf("require pattern %d", i), "const x = globalThis.y; require("+pattern+");")
		add(fmt.Sprintf("caught pattern %d", i), "const x = globalThis.y; try { require("+pattern+") } catch {}")
		add(fmt.Sprintf("text pattern %d", i), "const x = globalThis.y; import("+pattern+", {with: {type: 'text'}});")
	}
	// The same in other letters.
	add("escaped pattern", "const x = globalThis.y; requ\\u0069re(`./${x}`);")
	add("commented pattern", "const x = globalThis.y; import /* a */ ( /* b */ `./${x}`);")
	return scripts
}

// answerOf is all that whoever sends a script learns from building it.
func answerOf(s Source) string {
	bundle, err := Build(s)
	if err != nil {
		return err.Error()
	}
	b, _ := json.Marshal(bundle)
	return string(b) + string(bundle.Code) + mapOf(bundle)
}

// mapOf is a bundle's source map.
func mapOf(b *Bundle) string {
	_, text, _ := strings.Cut(string(b.Code), mapMark)
	m, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	return string(m)
}

// TestUploadReadsNoFile builds scripts without files that name a file in every way
// that a bundler knows. The answer is the same whether the file exists
// or not, and quotes none of it.
func TestUploadReadsNoFile(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	scripts := spellings(dir)
	answer := func(kind string) string {
		name := "guard.ts"
		if strings.HasPrefix(kind, "jsx") {
			name = "guard.tsx"
		}
		s := SourceOf(name, scripts[kind])
		s.Guarded = true // in this process
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

// TestUploadName checks that a script's name is no pattern and no path.
func TestUploadName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"*.ts", "**.ts", "../../x.ts", "[a].ts", "a?.ts", "etc.ts", "%2e.ts", "file:x.ts"} {
		b, err := Build(SourceOf(name, "export default { gateTool() {} };"))
		require.NoError(t, err, name)
		require.Len(t, b.Inputs, 1)
		require.Contains(t, b.Inputs, "/"+filepath.Base(name))
	}
}

// TestProjectReadsNoOtherFile builds a project whose files name one outside of it.
func TestProjectReadsNoOtherFile(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	root := project(t, "-- package.json --\n{\"imports\": {\"#x\": \"./sub/x.js\"}}\n-- sub/x.js --\nexport default 1;\n")
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret.map"), filepath.Join(root, "link.map")))
	require.NoError(t, os.Symlink(dir, filepath.Join(root, "linked")))
	scripts := spellings(dir)
	for i, u := range []string{"link.map", "linked/secret.map", "file://" + root + "/link.map"} {
		scripts[fmt.Sprintf("map of a link %d", i)] = "export default {};\n//# sourceMappingURL=" + u
	}
	for i, u := range []string{"./link.map", "./linked/secret.js", "./linked/secret.txt", "linked", "./linked"} {
		scripts[fmt.Sprintf("import of a link %d", i)] = "import x from " + jsonText(u) + "; export default x;"
	}
	entry := filepath.Join(root, "guard.ts")
	for kind, text := range scripts {
		if strings.Contains(kind, "pattern") || strings.HasPrefix(kind, "glob") {
			continue // they search the whole disk without a jail
		}
		require.NoError(t, os.WriteFile(entry, []byte(text), 0o600))
		s, err := FindSource(entry)
		require.NoError(t, err)
		require.NotContains(t, strings.ReplaceAll(answerOf(s), text, ""), canary, kind)
	}
	// Files that esbuild reads by itself.
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

// TestOwnComments checks that only comments change: a text that looks like
// one stays, and so do the positions of mistakes.
func TestOwnComments(t *testing.T) {
	t.Parallel()
	b, err := Build(SourceOf("guard.js", "export default { x: '//# sourceMappingURL=/etc/passwd' };\n//# sourceMappingURL=guard.js.map"))
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
