package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	checked  = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	caseName = regexp.MustCompile("`([a-z]+-[A-Za-z0-9-]+)`")
)

// testsOf maps the names of the repository's tests and fuzz targets to the folders of their
// packages.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, top := range []string{"abi", "host", "internal", "cmd", "guest-sdk", "examples", "tck"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
				return filepath.SkipDir
			case !strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				out[string(m[1])] = append(out[string(m[1])], filepath.ToSlash(dir))
			}
			return nil
		}))
	}
	return out
}

// section returns the part of a document below a heading.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, "\n## "+heading+"\n")
	require.True(t, ok, heading)
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// TestSecurityIsChecked checks that docs/security.md names only existing tests, fuzz targets and
// cases, maps each of OWASP's risks to at least one, and lists every fuzz target of the host.
func TestSecurityIsChecked(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	text, tests := string(b), testsOf(t)
	for _, m := range checked.FindAllStringSubmatch(text, -1) {
		require.NotEmpty(t, tests[m[1]], m[1])
	}

	owasp := section(t, text, "OWASP Top 10 for Agentic Applications")
	for n := range 10 {
		risk := fmt.Sprintf("| ASI%02d ", n+1)
		require.Equal(t, 1, strings.Count(owasp, risk), risk)
		_, row, _ := strings.Cut(owasp, risk)
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(row, "|")
		require.Len(t, cells, 5, row)
		require.NotEmpty(t, strings.TrimSpace(cells[3]), "ASI%02d says what is not covered", n+1)
		checks := len(checked.FindAllString(cells[2], -1))
		for _, m := range caseName.FindAllStringSubmatch(cells[2], -1) {
			require.FileExists(t, filepath.Join(root, "tck", "cases", m[1]+".txtar"), "ASI%02d", n+1)
			checks++
		}
		require.Positive(t, checks, "ASI%02d names a test or a case", n+1)
	}

	fuzz := section(t, text, "Fuzz targets")
	for name, dirs := range tests {
		for _, dir := range dirs {
			if top, _, _ := strings.Cut(dir, "/"); strings.HasPrefix(name, "Fuzz") &&
				(top == "abi" || top == "host" || top == "internal" || top == "tck") {
				require.Contains(t, fuzz, "| `"+name+"` | "+dir+" |")
			}
		}
	}
}
