package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
}

// tree creates a root with some files, and a secret next to the root.
func tree(t testing.TB) string {
	t.Helper()
	outer := t.TempDir()
	write(t, outer, "secret.txt", "SECRET")
	dir := filepath.Join(outer, "root")
	write(t, dir, "readme.md", "# Title\n\nSome text.\r\nThe end")
	write(t, dir, "src/main.go", "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n")
	write(t, dir, "src/deep/er/x.go", "package er // hello\n")
	write(t, dir, "empty.txt", "")
	write(t, dir, "data.png", "\x89PNG\r\n\x1a\n\x00\x00hello")
	write(t, dir, ".git/config", "hello")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "nothing"), 0o755))
	for link, target := range map[string]string{
		"inside":       "src",
		"inside.md":    "readme.md",
		"src/up":       "../readme.md",
		"out":          "..",
		"out.txt":      "../secret.txt",
		"absolute":     outer,
		"absolute.txt": filepath.Join(outer, "secret.txt"),
		"dangling":     "not-there",
		"loop":         "loop",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	return dir
}

// escapes lists paths that try to leave the root.
var escapes = []string{
	"../secret.txt", "src/../../secret.txt", "./../secret.txt", "src/../..//secret.txt", "../root/../secret.txt",
	"out/secret.txt", "out.txt", "absolute/secret.txt", "absolute.txt", "inside/../../secret.txt", "out/root/out.txt",
	"src/deep/../../../secret.txt", "/etc/passwd", "//etc/passwd", "/../etc/passwd", "..", "../", "out", "absolute",
	"/proc/self/root/etc/passwd", "secret.txt\x00", "..\\secret.txt", "%2e%2e/secret.txt", "....//secret.txt",
	"~/secret.txt",
}

func TestNothingLeadsOut(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	for _, p := range escapes {
		for _, name := range []string{nameReadFile, nameListFiles, nameSearchFiles} {
			a := map[string]string{"path": p}
			if name == nameSearchFiles {
				a["pattern"] = "."
			}
			b, err := abijson.Marshal(a)
			require.NoError(t, err)
			got := ask(t, one(t, name, dir), string(b))
			require.True(t, strings.HasPrefix(got, "ERROR "), "%s %q: %s", name, p, got)
			require.NotContains(t, got, "SECRET")
			require.NotContains(t, got, filepath.Dir(dir), "the error does not reveal the root's location")
		}
	}
}

func FuzzNothingLeadsOut(f *testing.F) {
	for _, p := range escapes {
		f.Add(p)
	}
	dir := tree(f)
	var tools []tool.Tool
	for _, name := range []string{nameReadFile, nameListFiles, nameSearchFiles} {
		tools = append(tools, one(f, name, dir))
	}
	f.Fuzz(func(t *testing.T, p string) {
		for _, tl := range tools {
			a := map[string]string{"path": p}
			if tl.Declaration().Name == nameSearchFiles {
				a["pattern"] = "SECRET|root:"
			}
			b, err := abijson.Marshal(a)
			require.NoError(t, err)
			got := ask(t, tl, string(b))
			if strings.Contains(got, "secret.txt  ") || strings.Contains(got, ":SECRET") || strings.HasPrefix(got, "SECRET") ||
				!utf8.ValidString(got) {
				t.Fatalf("%s of %q gives %q", tl.Declaration().Name, p, got)
			}
		}
	})
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	write(t, dir, "bom.txt", "\ufeffa\nb")
	write(t, dir, "latin1.txt", strings.Repeat("x", sniffBytes)+"\xe4\n")
	write(t, dir, "utf16.txt", "\xff\xfea\x00")
	write(t, dir, "odd \n name", "odd")
	write(t, dir, "newlines", "\n\n")
	for arguments, want := range map[string]string{
		`{"path":"readme.md"}`:                         "# Title\n\nSome text.\nThe end\n",
		`{"path":"./src/../readme.md"}`:                "# Title\n\nSome text.\nThe end\n",
		`{"path":"inside/main.go","limit":1}`:          "package main\n[cut before line 2; read on with \"offset\": 2]\n",
		`{"path":"src/up","offset":4}`:                 "The end\n",
		`{"path":"inside.md","offset":3,"limit":2}`:    "Some text.\nThe end\n",
		`{"path":"empty.txt"}`:                         "empty.txt is empty",
		`{"path":"bom.txt"}`:                           "a\nb\n",
		`{"path":"newlines"}`:                          "\n\n",
		`{"path":"odd \n name"}`:                       "odd\n",
		`{"path":"latin1.txt"}`:                        strings.Repeat("x", maxLine) + fmt.Sprintf(" [cut: %d more bytes in this line]\n", sniffBytes+1-maxLine),
		`{"path":"readme.md","offset":5}`:              "ERROR readme.md has only 4 lines; offset is 5",
		`{"path":"data.png"}`:                          "ERROR data.png is not text in UTF-8 but looks like image/png; it cannot be read with this tool",
		`{"path":"utf16.txt"}`:                         "ERROR utf16.txt is not text in UTF-8 but looks like text in another encoding; it cannot be read with this tool",
		`{"path":"src"}`:                               "ERROR src is a directory; list_files shows what is in it",
		`{"path":"."}`:                                 "ERROR . is a directory; list_files shows what is in it",
		`{"path":"readme.mf"}`:                         "ERROR there is no readme.mf; did you mean readme.md?",
		`{"path":"src/man.go"}`:                        "ERROR there is no src/man.go; did you mean src/main.go?",
		`{"path":"nope/at/all"}`:                       "ERROR there is no nope/at/all; list_files shows what there is",
		`{"path":"nope\nat"}`:                          `ERROR there is no "nope\nat"; list_files shows what there is`,
		`{"path":"dangling"}`:                          "ERROR dangling is a symbolic link to something that is not there",
		`{"path":"readme.md/x"}`:                       "ERROR readme.md/x cannot be read: not a directory",
		`{"path":"/readme.md"}`:                        `ERROR "/readme.md" is an absolute path; paths are relative to the root directory, which is "."`,
		`{"path":"../secret.txt"}`:                     `ERROR "../secret.txt" is outside of the root directory; only files in it can be read`,
		`{"path":"out.txt"}`:                           `ERROR "out.txt" is outside of the root directory; only files in it can be read`,
		`{"path":"a\u0000b"}`:                          `ERROR the path "a\x00b" is not valid text`,
		`{"path":"` + strings.Repeat("x", 5000) + `"}`: "ERROR the path has 5000 bytes; at most 4096 are allowed",
	} {
		require.Equal(t, want, ask(t, one(t, nameReadFile, dir), arguments), arguments)
	}
	require.Contains(t, ask(t, one(t, nameReadFile, dir), `{"path":"loop"}`), "ERROR loop cannot be read: too many")
}

// TestReadFileInPieces checks that every truncated result names the line to continue at, and that
// the results together are the file.
func TestReadFileInPieces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var file strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&file, "%d %s\n", i, strings.Repeat("ä", i%40))
	}
	write(t, dir, "f", file.String())
	read := one(t, nameReadFile, dir)
	var pieces strings.Builder
	offset := 1
	for range 20 {
		text := ask(t, read, args(`{"path":"f","offset":%d}`, offset))
		require.LessOrEqual(t, len(text), maxOutput+100)
		body, notice, cut := strings.Cut(text, "[cut before line ")
		pieces.WriteString(body)
		if !cut {
			break
		}
		_, err := fmt.Sscanf(notice, "%d;", &offset)
		require.NoError(t, err)
	}
	require.Equal(t, file.String(), pieces.String())
}

func TestLines(t *testing.T) {
	t.Parallel()
	type line struct {
		text string
		more int
	}
	for in, want := range map[string][]line{
		"":                                     nil,
		"a":                                    {{"a", 0}},
		"a\n":                                  {{"a", 0}},
		"\n\na":                                {{"", 0}, {"", 0}, {"a", 0}},
		"abcdefgh\nx":                          {{"abcdefgh", 0}, {"x", 0}},
		"abcdefghi\nx\n":                       {{"abcdefgh", 1}, {"x", 0}},
		"abcdef\r\nx":                          {{"abcdef", 0}, {"x", 0}},
		"abcdefgäh\n":                          {{"abcdefg", 3}},
		"abcdef😀\n":                            {{"abcdef", 4}},
		strings.Repeat("xyz", 20000) + "\nend": {{"xyzxyzxy", 59992}, {"end", 0}},
	} {
		name := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(name, []byte(in), 0o644))
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		l, kind, err := newLineReader(t.Context(), f)
		require.NoError(t, err)
		require.Empty(t, kind)
		l.keep = 8
		var got []line
		for {
			text, more, err := l.next()
			if err != nil {
				break
			}
			got = append(got, line{text, more})
		}
		require.Equal(t, want, got, "%.40q", in)
	}
}

func TestIsText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"":                  true,
		"plain\ttext\r\n":   true,
		"\x1b[31mred\x1b[m": true,
		"ünïcode 😀":         true,
		"cut off \xf0\x9f":  true,
		"latin1 \xe4 text":  false,
		"nul \x00":          false,
		"\x01":              false,
	} {
		require.Equal(t, want, isText([]byte(in)), "%q", in)
	}
}

func TestListFiles(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	list := one(t, nameListFiles, dir)
	top := ".git/\nabsolute@\nabsolute.txt@\ndangling@\ndata.png  15\nempty.txt  0\ninside@\ninside.md@\nloop@\nnothing/\nout@\nout.txt@\nreadme.md  28\nsrc/\n"
	require.Equal(t, top, ask(t, list, ``))
	require.Equal(t, top, ask(t, list, `{"path":"/","depth":1}`))
	require.Equal(t, "src/deep/\nsrc/main.go  48\nsrc/up@\n", ask(t, list, `{"path":"src"}`))
	require.Equal(t, "inside/deep/\ninside/main.go  48\ninside/up@\n", ask(t, list, `{"path":"inside"}`))
	require.Equal(
		t,
		"src/deep/\nsrc/deep/er/\nsrc/deep/er/x.go  20\nsrc/main.go  48\nsrc/up@\n",
		ask(t, list, `{"path":"src","depth":32}`),
	)
	require.Contains(t, ask(t, list, `{"depth":2}`), "src/main.go  48\nsrc/up@\n[1 directories not listed completely")
	require.Equal(t, "nothing is empty", ask(t, list, `{"path":"nothing"}`))
	require.Equal(t, "ERROR readme.md is not a directory", ask(t, list, `{"path":"readme.md"}`))
	require.Equal(t, "ERROR there is no sro; did you mean src?", ask(t, list, `{"path":"sro"}`))
	require.Equal(t, "ERROR depth is 33; it must be from 1 to 32", ask(t, list, `{"depth":33}`))
}

func TestListFilesIsCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range maxListed + 1 {
		write(t, dir, fmt.Sprintf("%04d", i), "")
	}
	text := ask(t, one(t, nameListFiles, dir), ``)
	require.True(
		t,
		strings.HasSuffix(
			text,
			"0999  0\n[cut after 1000 entries; list a subdirectory, or use a smaller depth]\n",
		),
		text[len(text)-200:],
	)
}

func TestSearchFiles(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	search := one(t, nameSearchFiles, dir)
	const skipped = "[2 files or directories not searched: not text, larger than 16777216 bytes, unreadable, or .git]\n"
	for arguments, want := range map[string]string{
		`{"pattern":"hello"}`: "src/deep/er/x.go:1:package er // hello\nsrc/main.go:4:\tprintln(\"hello\")\n" + skipped,
		`{"pattern":"hello","files":"*.go","path":"src/deep"}`:   "src/deep/er/x.go:1:package er // hello\n",
		`{"pattern":"HELLO","files":"x.*"}`:                      "[no line matches]\n[1 files or directories not searched: not text, larger than 16777216 bytes, unreadable, or .git]\n",
		`{"pattern":"HELLO","ignore_case":true,"path":"inside"}`: "inside/deep/er/x.go:1:package er // hello\ninside/main.go:4:\tprintln(\"hello\")\n",
		`{"pattern":"^package (main|er)\\b","path":"src"}`:       "src/deep/er/x.go:1:package er // hello\nsrc/main.go:1:package main\n",
		`{"pattern":"e","path":"readme.md","limit":2}`:           "readme.md:1:# Title\nreadme.md:3:Some text.\n[cut after 2 matches in 1 files; there may be more: search a subdirectory, or for something more specific]\n",
		`{"pattern":"hello","path":"data.png"}`:                  "[no line matches]\n[1 files or directories not searched: not text, larger than 16777216 bytes, unreadable, or .git]\n",
		`{"pattern":"SECRET"}`:                                   "[no line matches]\n" + skipped,
		`{"pattern":"(?=x)"}`:                                    "ERROR the pattern is not a regular expression of RE2: invalid or unsupported Perl syntax: `(?=`",
		`{"pattern":"x{1,9999}"}`:                                "ERROR the pattern is not a regular expression of RE2: invalid repeat count: `{1,9999}`",
		`{"pattern":""}`:                                         `ERROR the argument "pattern" is missing`,
		`{"pattern":"x","files":"src/*.go"}`:                     `ERROR "src/*.go" is not a pattern of file names, such as *.go`,
		`{"pattern":"x","files":"[a"}`:                           `ERROR "[a" is not a pattern of file names, such as *.go`,
		`{"pattern":"x","path":"missing"}`:                       "ERROR there is no missing; list_files shows what there is",
		`{"pattern":"x","path":"absolute"}`:                      `ERROR "absolute" is outside of the root directory; only files in it can be read`,
		`{"pattern":"` + strings.Repeat("x", 1001) + `"}`:        "ERROR the pattern has 1001 bytes; at most 1000 are allowed",
	} {
		require.Equal(t, want, ask(t, search, arguments), arguments)
	}
}

func TestSearchFilesLongLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", strings.Repeat("x", maxSearch-3)+"end")
	write(t, dir, "b", strings.Repeat("x", maxSearch)+"end")
	text := ask(t, one(t, nameSearchFiles, dir), `{"pattern":"end|cut"}`)
	require.Equal(
		t,
		"a:1:"+strings.Repeat("x", maxShown)+"…\n[of 1 lines only the first 65536 bytes were searched]\n",
		text,
	)
}

// TestRootIsOpenedForEachCall checks that the tools report a root that was removed, and see a
// root that was replaced.
func TestRootIsOpenedForEachCall(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "root")
	write(t, dir, "f", "one")
	read := one(t, nameReadFile, dir)
	require.Equal(t, "one\n", ask(t, read, `{"path":"f"}`))
	require.NoError(t, os.RemoveAll(dir))
	require.Equal(t, "ERROR the root directory cannot be read: no such file or directory", ask(t, read, `{"path":"f"}`))
	write(t, dir, "f", "two")
	require.Equal(t, "two\n", ask(t, read, `{"path":"f"}`))
}
