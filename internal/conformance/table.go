package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/golden"
)

// Table formats the catalogues as docs/conformance.md: each row with its verdict and cases, then
// the cases that belong to this project only.
func Table(catalogues []*Catalogue, cases []*golden.Case) []byte {
	var b strings.Builder
	b.WriteString(tableHead)
	fmt.Fprintf(&b, "There are %d golden cases.\n\n", len(cases))
	b.WriteString("| origin | rows | same | better | not applicable |\n|---|---|---|---|---|\n")
	for _, c := range catalogues {
		n := map[string]int{}
		for _, r := range c.Rows {
			n[r.Verdict]++
		}
		fmt.Fprintf(
			&b,
			"| [%s](#%s) | %d | %d | %d | %d |\n",
			cell(c.Origin),
			c.Name,
			len(c.Rows),
			n[Same],
			n[Better],
			n[NotApplicable],
		)
	}
	for _, c := range catalogues {
		c.table(&b)
	}
	ownTable(&b, cases)
	transports(&b, cases)
	return []byte(b.String())
}

const tableHead = `<!-- Written by "go generate ./internal/conformance" from tck/cases; do not edit. -->
# What is as elsewhere, and what is better

Each behaviour that people know from another system, and what happens here: the *same*; something *better*, and why;
or it is *not applicable*, and why. The golden cases show it: each is one file with its modules, a scripted model and
what comes out, run by ` + "`go test ./internal/conformance -run TestCases/NAME`" + `.

`

func (c *Catalogue) table(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| | what | here | shown by |\n|---|---|---|---|\n", c.Name, c.Origin)
	for _, r := range c.Rows {
		here := r.Verdict
		if r.Why != "" {
			here += ": " + r.Why
		}
		var links []string
		for _, name := range r.Cases {
			links = append(links, caseLink(name, strings.TrimPrefix(name, c.Name+"-"+r.ID+"-")))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.ID, cell(r.Title), cell(here), strings.Join(links, ", "))
	}
}

func ownTable(b *strings.Builder, cases []*golden.Case) {
	head := "\n## Rules of this project alone\n\n| rule | shown by |\n|---|---|\n"
	for _, c := range cases {
		if short, ok := strings.CutPrefix(c.Name, Own+"-"); ok {
			fmt.Fprintf(b, "%s| %s | %s |\n", head, cell(c.About), caseLink(c.Name, short))
			head = ""
		}
	}
}

// transports writes a table with the number of cases that use each hook, for each transport.
// TestCases, TestCasesOfExtism and TestCasesOfJavaScript check that those cases pass.
func transports(b *strings.Builder, cases []*golden.Case) {
	native, script := map[abi.Hook]int{}, map[abi.Hook]int{}
	var total int
	var names []string
	for _, c := range cases {
		if c.InTypeScript() {
			total++
			names = append(names, caseLink(c.Name, c.Name))
		}
		for _, hook := range hooksOf(c) {
			native[hook]++
			if c.InTypeScript() {
				script[hook]++
			}
		}
	}
	fmt.Fprintf(b, transportsHead, len(cases), len(cases), total)
	for _, hook := range slices.Sorted(maps.Keys(native)) {
		fmt.Fprintf(b, "| `%s` | %d | %d | %d |\n", hook, native[hook], native[hook], script[hook])
	}
	fmt.Fprintf(b, "\nThose in TypeScript: %s.\n", strings.Join(names, ", "))
}

// hooksOf returns the hooks of all modules of the case, sorted.
func hooksOf(c *golden.Case) []abi.Hook {
	var out []abi.Hook
	for _, hooks := range c.Hooks {
		out = append(out, hooks...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const transportsHead = `
## Transports

The same cases, the same expectations, on each transport. The modules in Go are built twice: as native modules, and as
plug-ins of Extism's, which ask the host by Extism's functions. Where a case has its modules in TypeScript too
(` + "`NAME.ts` beside `NAME.go`" + `), it is run with those as well. A case whose expectations quote the SDK for Go (the text of a panic, say) has none.

| cases whose modules have | native | Extism | JavaScript |
|---|---:|---:|---:|
| all | %d | %d | %d |
`

func caseLink(name, text string) string {
	return fmt.Sprintf("[%s](../tck/cases/%s.txtar)", text, name)
}

// cell escapes text for a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
