// Package fileref makes references to files, in each form that a bundler, a compiler or a loader could
// follow. Tests upload them and check that no answer depends on the files.
package fileref

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Canary is a string that each file of [Plant] contains, but no reference to them.
const Canary = "canary-4711"

// Plant writes files to dir, each with the canary. A bundler that found them would read, parse,
// quote or embed them.
func Plant(dir string) error {
	for name, text := range map[string]string{
		"secret": Canary + "=1\n",
		"secret.map": `{"version": 3, "sources": ["` + Canary + `"], "sourcesContent": ["` + Canary +
			`"], "names": [], "mappings": "AAAA"}`,
		"secret.js":     `export default "` + Canary + `";`,
		"secret.ts":     `export default "` + Canary + `"; )`,
		"secret.json":   `"` + Canary + `"`,
		"secret.txt":    Canary,
		"secret.wasm":   "\x00asm\x01\x00\x00\x00\x00\x0c\x0b" + Canary,
		"package.json":  `{"` + Canary + `" "exports"`,
		"tsconfig.json": `{"` + Canary + `"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// quote returns s as a string literal of JSON and JavaScript.
func quote(s string) string {
	b, _ := json.Marshal(s) // cannot fail
	return string(b)
}

// urls returns an absolute path in several forms, as paths and as URLs.
func urls(path string) []string {
	escaped := strings.ReplaceAll(path, "/", "%2F")
	return []string{
		path, up + path[1:], "./" + up + path[1:], "file://" + path, "file:" + path, "FILE://" + path,
		"file://localhost" + path, "//localhost" + path, escaped, strings.ReplaceAll(up, "/", "%2f") + escaped[3:],
		"file:///%2e%2e" + path, path + "?x", path + "#x", "file://" + path + "?x",
		strings.ReplaceAll(
			path,
			"/",
			"\\",
		), strings.ReplaceAll(path, "s", "%73"), "/.." + path, "//" + path, path + "%00", "%20" + path,
	}
}

// up is a path from any directory to the root.
var up = strings.Repeat("../", 40)

// Scripts returns scripts that name the files of [Plant] below a directory. A script whose key
// begins with "jsx" is a .tsx file, all others are .ts files.
func Scripts(dir string) map[string]string {
	scripts := map[string]string{}
	add := func(kind, text string) {
		if !strings.Contains(text, "export default") {
			text += "\nexport default { gateTool() {} };\n"
		}
		scripts[kind] = text
	}
	for _, name := range []string{"secret", "secret.map", "secret.json"} {
		path := filepath.Join(dir, name)
		for i, u := range urls(path) {
			for j, comment := range []string{"//# sourceMappingURL=%s", "//@ sourceMappingURL=%s", "/*# sourceMappingURL=%s */", "/*@ sourceMappingURL=%s*/", "//# sourceMappingURL=%s //# sourceMappingURL=%s",
				"/*\n*/ //# sourceMappingURL=%s", "//#  sourceMappingURL=%s", "//# sourceURL=%s", "<!--# sourceMappingURL=%s"} {
				if name != "secret" && i*j > 0 {
					continue
				}
				c := strings.ReplaceAll(comment, "%s", u)
				add(fmt.Sprintf("map %s %d %d end", name, i, j), "export default { gateTool() {} };\n"+c)
				if i == 0 {
					add(fmt.Sprintf("map %s %d %d start", name, i, j), c+"\nexport default { gateTool() {} };")
					add(fmt.Sprintf("map %s %d %d mistake", name, i, j), "let x = ;\n"+c)
				}
			}
			if i > 3 {
				continue // the plugin sees the paths of imports, whatever they are
			}
			q := quote(u)
			for kind, text := range map[string]string{
				"import":  "import x from %s; console.log(x);",
				"bare":    "import %s;",
				"all":     "import * as x from %s; console.log(x);",
				"export":  "export * from %s;",
				"dynamic": "import(%s);",
				"require": "require(%s);",
				"resolve": "require.resolve(%s);",
				"type":    "import type x from %s;",
				"json":    "import x from %s with {type: 'json'}; console.log(x);",
				"text":    "import x from %s with {type: 'text'}; console.log(x);",
				"bytes":   "import x from %s with {type: 'bytes'}; console.log(x);",
				"file":    "import x from %s with {type: 'file'}; console.log(x);",
				"assert":  "import x from %s assert {type: 'json'}; console.log(x);",
				"url":     "new URL(%s, import.meta.url);",
				"worker":  "new Worker(new URL(%s, import.meta.url));",
				"defer":   "import defer * as x from %s; console.log(x);",
				"source":  "import source x from %s; console.log(x);",
				"caught":  "try { require(%s) } catch {}",
				"glob":    "import(%s + x);",
				"glob2":   "require(%s + x + '.json');",
				"equals":  "import x = require(%s); console.log(x);",
			} {
				add(fmt.Sprintf("%s %s %d", kind, name, i), fmt.Sprintf(text, q))
			}
			add(fmt.Sprintf("jsx %s %d", name, i), "/** @jsxImportSource "+u+" */ /** @jsxRuntime automatic */\nconst x = <a/>;")
			add(fmt.Sprintf("reference %s %d", name, i), `/// <reference path=`+q+` />`)
			for j, m := range []map[string]any{
				{"version": 3, "sources": []string{u}, "names": []string{}, "mappings": "AAAA"},
				{"version": 3, "sourceRoot": "file://" + dir, "sources": []string{name}, "names": []string{}, "mappings": "AAAA"},
				{
					"version":  3,
					"file":     u,
					"sections": []any{map[string]any{"offset": map[string]int{"line": 0, "column": 0}, "url": u}},
				},
			} {
				b, _ := json.Marshal(m)
				add(
					fmt.Sprintf("data %s %d %d", name, i, j),
					"export default { gateTool() {} };\n//# sourceMappingURL=data:application/json;base64,"+base64.StdEncoding.EncodeToString(
						b,
					),
				)
				add(
					fmt.Sprintf("data escaped %s %d %d", name, i, j),
					"export default { gateTool() {} };\n//# sourceMappingURL=data:application/json,"+url.PathEscape(string(b)),
				)
			}
		}
	}
	// These are patterns, for which esbuild searches directories.
	in := "./" + up + dir[1:]
	for i, pattern := range []string{
		"`" + in + "/${x}`", "`" + in + "/${x}.json`", "`" + in + "/${x}/secret.js`", "'" + in + "/' + x", "`./${x}`",
		"`../${x}.ts`", "`" + in + "/sec${x}.txt`", "`" + in + "/no${x}`",
	} {
		add(fmt.Sprintf("import pattern %d", i), "const x = globalThis.y; import("+pattern+");")
		add(fmt.Sprintf("require pattern %d", i), "const x = globalThis.y; require("+pattern+");")
		add(fmt.Sprintf("caught pattern %d", i), "const x = globalThis.y; try { require("+pattern+") } catch {}")
		add(fmt.Sprintf("text pattern %d", i), "const x = globalThis.y; import("+pattern+", {with: {type: 'text'}});")
	}
	// These are patterns with escapes and comments.
	add("escaped pattern", "const x = globalThis.y; requ\\u0069re(`./${x}`);")
	add("commented pattern", "const x = globalThis.y; import /* a */ ( /* b */ `./${x}`);")
	return scripts
}

// An Upload is a body that a client could send to a server, and its media type.
type Upload struct {
	Type string
	Body []byte
}

// Modules returns WebAssembly modules and Extism manifests that name the files of [Plant] below a
// directory. module is a valid module.
func Modules(dir string, module []byte) map[string]Upload {
	uploads := map[string]Upload{}
	const manifest, wasm = "application/vnd.extism.manifest+json", "application/wasm"
	data := quote(base64.StdEncoding.EncodeToString(module))
	path := filepath.Join(dir, "secret.wasm")
	for i, u := range urls(path) {
		for name, text := range map[string]string{
			"path":            `{"wasm": [{"path": %s}]}`,
			"url":             `{"wasm": [{"url": %s}]}`,
			"path, data":      `{"wasm": [{"path": %s, "data": ` + data + `}]}`,
			"URL, no case":    `{"wasm": [{"URL": %s}]}`,
			"data":            `{"wasm": [{"data": %s}]}`,
			"hash":            `{"wasm": [{"hash": %s, "data": ` + data + `}]}`,
			"second":          `{"wasm": [{"data": ` + data + `}, {"path": %s}]}`,
			"allowed_paths":   `{"wasm": [{"data": ` + data + `}], "allowed_paths": {%s: "/"}}`,
			"config":          `{"wasm": [{"data": ` + data + `}], "config": {"file": %s}}`,
			"name of a field": `{%s: 1, "wasm": []}`,
		} {
			uploads[fmt.Sprintf("manifest %s %d", name, i)] = Upload{manifest, fmt.Appendf(nil, text, quote(u))}
		}
		for _, section := range []string{"sourceMappingURL", "external_debug_info", "name", u} {
			uploads[fmt.Sprintf("section %.20s %d", section, i)] = Upload{
				wasm,
				append(module[:len(module):len(module)], customSection(section, u)...),
			}
		}
		uploads[fmt.Sprintf("text %d", i)] = Upload{wasm, []byte(u)}
	}
	return uploads
}

// customSection returns a custom section of WebAssembly called name, which contains text after its
// length.
func customSection(name, text string) []byte {
	content := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
	content = append(binary.AppendUvarint(content, uint64(len(text))), text...)
	return append(binary.AppendUvarint([]byte{0}, uint64(len(content))), content...)
}
