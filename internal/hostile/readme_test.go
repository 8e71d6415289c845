package hostile

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

var updateFlag = flag.Bool("update", false, "write the tables of testdata/hostile/README.md anew")

const readme = "../../testdata/hostile/README.md"

//go:generate go test -run ^TestReadme$ . -args -update

// TestReadme checks that the tables of the README match the code.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile(readme)
	require.NoError(t, err)
	want := string(b)
	for name, table := range map[string]string{"cases": casesTable(), "limits": limitsTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		head, rest, ok := strings.Cut(want, begin)
		require.True(t, ok, "no %q", begin)
		_, tail, ok := strings.Cut(rest, end)
		require.True(t, ok, "no %q", end)
		want = head + begin + table + end + tail
	}
	if *updateFlag {
		require.NoError(t, os.WriteFile(readme, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(b), "run make generate")
}

func casesTable() string {
	var b strings.Builder
	b.WriteString("| group | case | outcome | where and why |\n|---|---|---|---|\n")
	for _, c := range Cases() {
		why := strings.Join(c.Text, "; ")
		if c.Want == Faulted && c.Hook != "" {
			why = strings.TrimSuffix(fmt.Sprintf("%s, %s: %s", c.Hook, c.Kind, why), ": ")
			why = strings.Replace(why, ", :", ":", 1)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Group, cell(c.Name), c.Want, cell(why))
	}
	return b.String()
}

func limitsTable() string {
	var b strings.Builder
	b.WriteString("| limit | what it stops |\n|---|---|\n")
	cases := LimitCases()
	for _, name := range runLimits() {
		c := cases[name]
		fmt.Fprintf(&b, "| `%s` | %s: %s |\n", name, c.Want, cell(strings.Join(append(c.Text, string(c.Hook)), " ")))
	}
	limits := reflect.ValueOf(wasm.DefaultLimits())
	for i := range limits.NumField() {
		fmt.Fprintf(
			&b,
			"| structure: `%s` | refused: %d of them or more |\n",
			limits.Type().Field(i).Name,
			limits.Field(i).Int()+1,
		)
	}
	return b.String()
}

func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ")
}
