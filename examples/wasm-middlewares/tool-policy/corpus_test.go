//go:build !wasip1

package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/corpus"

	"github.com/agent-runner/agent-runner/abi"
)

// The corpus is generated from a seed: calls that two rules should match, in disguises that the tool
// could decode, and similar calls in the same disguises, which the rules should not match. The rules
// and their decoder were not tuned on the corpus.

var corpusRules = rules(
	on("deny", "*_file", "path", `(^|/)secret(/|$)`),
	on("deny", "run", "", `(?i)\bdrop\s+table\b`),
)

// meant holds fragments of values that the rules should match, by tool.
var meant = map[string][][]string{
	"read_file": {{"", "./", "data/", "/srv/app/", "a/b/c/"}, {"secret"}, {"", "/keys.txt", "/2024/plan.md", "/"}},
	"run": {
		{"psql -c '", "echo hi; ", "", "-- tidy up\n"},
		{"drop", "DROP", "Drop"},
		{" ", "  ", "\t", "\n"},
		{"table", "TABLE"},
		{" customers", " x;", " if exists logs'"},
	},
}

// others holds fragments of similar values that the rules should not match, by tool.
var others = map[string][][]string{
	"read_file": {
		{"", "./", "data/", "/srv/app/"},
		{"secretary", "secrets.txt", "public", "top-secret", "docs/secretion", "not_secret"},
		{"/keys.txt", "", "/2024/plan.md"},
	},
	"run": {
		{"psql -c '", "echo hi; ", ""},
		{"drop the", "create table", "raindrop", "drop", "table", "dropped a table:"},
		{" customers", " x;", " and a chair"},
	},
}

func compose(random *rand.Rand, parts [][]string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p[random.IntN(len(p))])
	}
	return b.String()
}

// each returns a function that formats every byte of a string with verb.
func each(verb string) func(*rand.Rand, string) string {
	return func(_ *rand.Rand, s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, verb, s[i])
		}
		return b.String()
	}
}

func encoded(_ *rand.Rand, s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func inJSON(_ *rand.Rand, s string) string {
	inner, _ := json.Marshal(map[string]any{"args": []string{s}})
	return string(inner)
}

// wide returns s with its ASCII characters, except spaces, in full width.
func wide(_ *rand.Rand, s string) string {
	return strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7F {
			return c + 0xFEE0
		}
		return c
	}, s)
}

type form struct {
	name string
	make func(*rand.Rand, string) string
}

var plainly = func(_ *rand.Rand, s string) string { return s }

var forms = []form{
	{"as it is", plainly},
	{"look-alike letters", func(_ *rand.Rand, s string) string {
		return strings.NewReplacer("e", "е", "o", "о", "a", "а", "c", "с", "p", "р").Replace(s)
	}},
	{"full width", wide},
	{"invisible letters", func(random *rand.Rand, s string) string {
		var b strings.Builder
		for _, c := range s {
			b.WriteRune(c)
			b.WriteString([]string{"", "\u200b", "\u00ad", "\u2060"}[random.IntN(4)])
		}
		return b.String()
	}},
	{"percent escapes", func(random *rand.Rand, s string) string {
		if random.IntN(2) == 0 {
			return url.PathEscape(s)
		}
		return each("%%%02X")(random, s)
	}},
	{"\\u escapes in a string", each(`\u%04x`)},
	{"HTML entities", each("&#%d;")},
	{"base64", encoded},
	{"hexadecimal digits", func(_ *rand.Rand, s string) string { return hex.EncodeToString([]byte(s)) }},
	{"JSON in a string", inJSON},
	{"two of these", func(random *rand.Rand, s string) string {
		two := []func(*rand.Rand, string) string{encoded, inJSON, each("%%%02x"), wide, each("&#x%x;")}
		return two[random.IntN(len(two))](random, two[random.IntN(len(two))](random, s))
	}},
	{"base64 three times", func(random *rand.Rand, s string) string {
		return encoded(random, encoded(random, encoded(random, s)))
	}},
	{"reversed", func(_ *rand.Rand, s string) string {
		r := []rune(s)
		slices.Reverse(r)
		return string(r)
	}},
	{"put together by the tool", func(_ *rand.Rand, s string) string {
		return strings.NewReplacer("secret", "sec''ret", "drop", "d''rop", "DROP", "D''ROP", "Drop", "D''rop").Replace(s)
	}},
}

const perDisguise = 200

// TestCorpus measures the matches of rules, and checks the figures in the README.
func TestCorpus(t *testing.T) {
	t.Parallel()
	h := newHost()
	require.NoError(t, h.Configure(corpusRules))
	random := rand.New(rand.NewPCG(1611, 8))
	denied := func(d *form, from map[string][][]string) bool {
		tool, argument := "read_file", "path"
		if random.IntN(2) == 0 {
			tool, argument = "run", "script"
		}
		arguments, err := json.Marshal(object{argument: d.make(random, compose(random, from[tool])), "n": random.IntN(100)})
		require.NoError(t, err)
		answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: tool, Arguments: string(arguments)}})
		require.NoError(t, err)
		return answer.Decision == "deny"
	}
	var table strings.Builder
	table.WriteString("\n| disguise | meant | denied | not meant | denied |\n|---|---:|---:|---:|---:|\n")
	right, wrong := 0, 0
	for _, d := range forms {
		hits, misses := 0, 0
		for range perDisguise {
			if denied(&d, meant) {
				hits++
			}
			if denied(&d, others) {
				misses++
			}
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %[2]d | %[4]d |\n", d.name, perDisguise, hits, misses)
		right, wrong = right+hits, wrong+misses
	}
	precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(len(forms)*perDisguise)
	fmt.Fprintf(&table, "\nPrecision %.3f, recall %.3f.\n\n", precision, recall)
	t.Log(table.String())
	require.Greater(t, precision, 0.95)
	require.Greater(t, recall, 0.8)
	corpus.Measured(t, table.String())
}
