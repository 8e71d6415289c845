package javascript

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// project writes the files of a txtar archive and returns their folder.
func project(t *testing.T, files string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, f := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, f.Data, 0o600))
	}
	return dir
}

func build(t *testing.T, dir, entry string) (*Bundle, error) {
	t.Helper()
	s, err := FindSource(filepath.Join(dir, entry))
	require.NoError(t, err)
	return Build(s)
}

func TestBuild(t *testing.T) {
	t.Parallel()
	dir := project(t, `
-- package.json --
{}
-- src/guard.ts --
import { words } from "./words";
import list from "./list.json";
import text from "../note.txt";
import { helper } from "helper";
import { other } from "helper/other";
import { deny } from "@agent-runner/middleware";
enum Kind { A = 7 }
export default { gateTool: () => deny(helper(words, list, text, other, Kind.A satisfies number)) };
-- src/words.tsx --
export const words: string[] = ["words of tsx"];
-- src/list.json --
["item of json"]
-- note.txt --
text of a note
-- node_modules/helper/package.json --
{"name": "helper", "exports": {".": {"import": "./lib/index.mjs", "require": "./no.cjs"}, "./other": "./other.cjs"}}
-- node_modules/helper/lib/index.mjs --
export const helper = (...all) => all.join() + "of a package";
-- node_modules/helper/other.cjs --
exports.other = "of CommonJS";
-- node_modules/@agent-runner/middleware/index.js --
export const deny = () => "not this one";
`)
	b, err := build(t, dir, "src/guard.ts")
	require.NoError(t, err)
	require.True(t, IsBundle(b.Code))
	for _, part := range []string{
		"words of tsx", "item of json", "text of a note", "of a package", "of CommonJS", `decision: "deny"`,
	} {
		require.Contains(t, string(b.Code), part)
	}
	require.NotContains(t, string(b.Code), "not this one")
	require.NotContains(t, string(b.Code), dir, "a bundle does not tell where it was made")
	require.Len(t, b.Inputs, 6)
	again, err := build(t, dir, "src/guard.ts")
	require.NoError(t, err)
	require.Equal(t, b, again)

	m, err := ReadMap(b.Code)
	require.NoError(t, err)
	lines := strings.Split(string(b.Code), "\n")
	for i, line := range lines {
		if column := strings.Index(line, "deny(helper("); column >= 0 {
			p, ok := m.Find(i+1, column+1)
			require.True(t, ok)
			require.Equal(t, "src/guard.ts:8:34", p.String())
			require.Contains(t, m.Frame(p), "> 8 | export default { gateTool: () => deny(helper(words")
			return
		}
	}
	require.Fail(t, "the call is not in the bundle")
}

// TestWorkspace checks that a script can import the packages that npm installed for its workspace,
// and the other packages of the workspace.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	for _, workspaces := range []string{
		`["./packages/*"]`, `["tools", "packages/guard/", "packages/words"]`, `{"packages": ["packages/*"]}`,
		`["**"]`, `["packages/*", "!packages/guard", "packages/guard"]`,
	} {
		dir := project(t, `
-- package.json --
{"workspaces": `+workspaces+`}
-- packages/guard/package.json --
{}
-- packages/guard/src/guard.ts --
import { helper } from "helper";
import { words } from "@all/words";
export default { gateTool: () => helper(words) };
-- packages/words/package.json --
{"main": "words.ts"}
-- packages/words/words.ts --
export const words: string[] = ["words of a package"];
-- node_modules/helper/index.js --
export const helper = (...all) => all.join() + "of a helper";
`)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "node_modules", "@all"), 0o700))
		require.NoError(
			t,
			os.Symlink(filepath.Join("..", "..", "packages", "words"), filepath.Join(dir, "node_modules", "@all", "words")),
		)
		b, err := build(t, dir, "packages/guard/src/guard.ts")
		require.NoError(t, err, workspaces)
		require.Contains(t, string(b.Code), "words of a package")
		require.Contains(t, string(b.Code), "of a helper")
		require.NotContains(t, string(b.Code), dir, "a bundle does not tell where it was made")

		// A mistake in another package of the workspace is shown.
		require.NoError(
			t,
			os.WriteFile(filepath.Join(dir, "packages", "words", "words.ts"), []byte("export const words = ];"), 0o600),
		)
		_, err = build(t, dir, "packages/guard/src/guard.ts")
		require.ErrorContains(t, err, "words/words.ts:1:22: Unexpected \"]\"")
	}
}

// TestBuildRefused checks the errors for imports from outside of the project, other imports that
// cannot be bundled, and malformed scripts. No error may contain text of a file outside of the
// project.
func TestBuildRefused(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(secret, []byte("a secret"), 0o600))
	for name, c := range map[string]struct{ files, want string }{
		"absolute":       {"import x from " + jsonText(secret) + ";", "is outside of the project"},
		"above":          {`import x from "../../../../../../../../../etc/hostname";`, "etc/hostname"},
		"a link":         {`import x from "./link.txt";`, "is outside of the project"},
		"a required one": {"const x = require(" + jsonText(secret) + ");", "is outside of the project"},
		"of Node":        {`import x from "node:fs";`, `cannot find "node:fs"`},
		"from afar":      {`import x from "https://example.com/x.js";`, "cannot be bundled"},
		"a data URL":     {`import x from "data:text/javascript,export default 1";`, "cannot be bundled"},
		"missing":        {`import x from "left-pad";`, `cannot find "left-pad"; install it with npm`},
		"a type":         {"import x from './guard.node';\n-- guard.node --\nx", "guard.node is no file that can be imported"},
		"a folder":       {`import x from "./";`, "cannot find"},
		"a tsconfig":     {"import x from 'mine';\n-- tsconfig.json --\n{\"compilerOptions\": {\"paths\": {\"mine\": [" + jsonText(secret) + "]}}}", `cannot find "mine"`},
		"two mistakes":   {"let x = ;\n", "guard.ts:1:9: Unexpected \";\"\n> 1 | let x = ; console.log(x);\n    |         ^"},
		"no UTF-8":       {"let x = \"\xff\"; let b = ;", "guard.ts:1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t, "-- package.json --\n{}\n-- guard.ts --\n"+strings.Replace(c.files, ";", "; console.log(x);", 1))
			require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link.txt")))
			_, err := build(t, dir, "guard.ts")
			var mistake *ScriptError
			require.ErrorAs(t, err, &mistake)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "a secret")
		})
	}
}

func jsonText(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestGuard checks that the guard rejects sources that would crash the bundler, and accepts
// ordinary ones.
func TestGuard(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"arrows":      strings.Repeat("a=>", 2_000) + "1",
		"braces":      strings.Repeat("{", 20_000),
		"parentheses": strings.Repeat("(", 100_000),
		"brackets":    strings.Repeat("[", 100_000),
		"types":       "let a: " + strings.Repeat("A<", 100_000),
		"conditions":  strings.Repeat("a?", 100_000),
		"signs":       strings.Repeat("-", 1) + strings.Repeat("- -", 100_000) + "1",
		"not":         strings.Repeat("!", 100_000) + "1",
		"templates":   strings.Repeat("`${", 100_000),
		"sums":        strings.Repeat("1+", 100_000) + "1",
		"chains":      "a" + strings.Repeat(".a", 100_000),
		"large":       strings.Repeat("a;\n", 1<<19),
	} {
		require.Error(t, guard([]byte(source)), name)
	}
	for _, path := range []string{"engine/prelude.js", "engine/middleware.js", "../../../guest-sdk/typescript/abi.d.ts", "../../../guest-sdk/typescript/testdata/types.ts"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, guard(b), path)
	}
}

func TestJob(t *testing.T) {
	t.Parallel()
	dir := project(t, "-- guard.ts --\nexport default {};\n-- bad.ts --\n)")
	for entry, good := range map[string]bool{"guard.ts": true, "bad.ts": false} {
		s, err := FindSource(filepath.Join(dir, entry))
		require.NoError(t, err)
		require.Equal(t, dir, s.Root)
		input, err := json.Marshal(s)
		require.NoError(t, err)
		output, err := Job().Do(input)
		require.NoError(t, err)
		b, err := JobResult(output)
		var mistake *ScriptError
		require.Equal(t, !good, errors.As(err, &mistake))
		require.Equal(t, good, b != nil)
	}
	for _, output := range []string{"", "{}", `{"bundle":{}}`, `{"bundle":{"code":"eA=="}}`} {
		_, err := JobResult([]byte(output))
		require.Error(t, err)
	}
}
