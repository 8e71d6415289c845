package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/golden"
)

//go:generate go test -run ^TestTable$ . -update

// TestTable checks that docs/conformance.md matches the catalogues and the cases: every applicable
// row has a case, and every case a row.
func TestTable(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, "tck", "cases")
	cases := goldenCases(t)
	catalogues, err := Catalogues(folder, cases)
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "conformance.md")
	want := Table(catalogues, cases)
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "docs/conformance.md is stale: go generate ./internal/conformance")
}

func TestCatalogueAndCasesAgree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, file, cases, want string }{
		{"a row of each kind", "1 | same | a\n2 | better | b | c | x-1-a\n3 | not applicable | d | e", "x-1-a", ""},
		{"a rule of our own", "1 | same | a", "x-1-a own-b", ""},
		{"no case", "1 | same | a", "own-b", "row x 1 (a) has no golden case"},
		{"no row", "1 | same | a", "x-1-a x-2-b", "case x-2-b: catalogue/x.txt has no row 2"},
		{"no catalogue", "1 | same | a", "x-1-a y-2-b", "case y-2-b: there is no catalogue/y.txt"},
		{"not applicable", "1 | not applicable | a | b", "x-1-a", "case x-1-a shows row 1, which"},
		{"no such other case", "1 | same | a | | x-2-a", "x-1-a", "there is no case x-2-a"},
		{"a hook", "1 | same | wrap_model asks", "x-1-a", ""},
		{"a hook that its case lacks", "1 | same | after_tool asks", "x-1-a", "none of its cases has after_tool: x-1-a"},
		{"an event", "1 | better | a | b, as a tool_result", "x-1-a", ""},
		{"an event that its case lacks", "1 | better | a | b, as run_paused", "x-1-a", "none of its cases has run_paused"},
		{"twice", "1 | same | a\n1 | same | b", "x-1-a", "row 1 is duplicated"},
		{"no why", "1 | better | a", "x-1-a", "say why it is better"},
		{"a verdict that is none", "1 | worse | a", "x-1-a", `"worse" is no verdict`},
		{"an ID that is none", "a-b | same | a", "x-1-a", `"a-b" is no ID`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "catalogue"), 0o755))
			require.NoError(
				t,
				os.WriteFile(filepath.Join(folder, "catalogue", "x.txt"), []byte("origin: X\n"+test.file+"\n"), 0o644),
			)
			_, err := Catalogues(folder, named(t, test.cases))
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

// named returns cases with the given space-separated names. Each case has the hook wrap_model and
// expects the event tool_result.
func named(t *testing.T, names string) []*golden.Case {
	t.Helper()
	const text = "A case.\n" +
		"-- h1.go --\npackage h1\n\ntype Middleware struct{}\n\nfunc (Middleware) WrapModel() {}\n" +
		"-- events --\ntool_result [t#1] tool: ok\n"
	var out []*golden.Case
	for _, name := range strings.Fields(names) {
		c, err := golden.Parse(name+".txtar", []byte(text))
		require.NoError(t, err)
		out = append(out, c)
	}
	return out
}
