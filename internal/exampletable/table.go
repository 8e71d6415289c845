package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/bench"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// The lines around the table.
const (
	begin = "<!-- what make table writes -->\n"
	end   = "<!-- end -->\n"
)

const head = `| | what it does | hooks, with their fuel | grants | module | image |
|---|---|---|---|---:|---:|
`

// cut splits a page into the text before the table, the table, and the text after it.
func cut(page string) (before, table, after string, err error) {
	before, rest, ok := strings.Cut(page, begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", "", "", fmt.Errorf("README.md needs the lines %q and %q: the table goes between them", begin, end)
	}
	return before + begin, table, end + after, nil
}

// configs holds configurations for middlewares that have no effect without one, or reject an empty
// one.
var configs = map[string]string{
	"call-budget":  `{"limits":{"*":100}}`,
	"continue":     `{"checks":[{"called":"run_tests","after":["edit_*"]},{"must":"(?m)^Sources:"}]}`,
	"instructions": `{"files":{"AGENTS.md":"Answer in @style.md","style.md":"rhymes.","skills/a/SKILL.md":"---\nname: a\ndescription: A skill.\n---\nDo it."},"load":["AGENTS.md"],"skills":["skills/a/SKILL.md"]}`,
	"limits":       `{"run":{"model_calls":30,"tools":{"read_*":10}}}`,
	"tool-policy":  `{"rules":[{"tools":["read_*"],"action":"deny","arguments":[{"path":"path","pattern":"(^|/)secret(/|$)"}]}]}`,
	"tool-search":  `{"hide":["read_*"]}`,
}

// write returns the table, without the hooks' fuel unless measured is set. Measuring runs every
// example.
func write(ctx context.Context, loader *module.Loader, root string, measured bool) (string, error) {
	names, err := examples(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	for _, name := range names {
		line, err := row(ctx, loader, root, name, measured)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

// examples returns the names of the examples' folders that contain a README.
func examples(root string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*", "README.md"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names, nil
}

// A source is a language and the location of its source in an example's folder.
type source struct{ language, path string }

// sources is ordered by preference for measuring an example.
var sources = []source{
	{"Go", "main.go"},
	{"TypeScript", "NAME.ts"},
	{"Extism, in Go", "extism"},
	{"C", "c"},
	{"Rust", "rust"},
	{"AssemblyScript", "assemblyscript"},
}

// of returns the sources of an example.
func of(root, name string) []source {
	var have []source
	for _, s := range sources {
		s.path = strings.ReplaceAll(s.path, "NAME", name)
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder), name, s.path)); err == nil {
			have = append(have, s)
		}
	}
	return have
}

// row returns the line of one example.
func row(ctx context.Context, loader *module.Loader, root, name string, measured bool) (string, error) {
	readme, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(folder), name, "README.md"))
	if err != nil {
		return "", err
	}
	have := of(root, name)
	if len(have) == 0 {
		return "", errors.New("the folder has a README and no source")
	}
	m, err := load(ctx, loader, root, name, have[0])
	if err != nil {
		return "", err
	}
	defer m.Close()
	hooks, err := hooks(ctx, m, name, measured)
	if err != nil {
		return "", err
	}
	info := m.Info()
	return fmt.Sprintf(
		"| [%s](%[1]s/) | %s%s | %s | %s | %s | %s |\n",
		name,
		about(string(readme)),
		others(name, have),
		hooks,
		grants(&info, string(readme)),
		size(info.Size),
		size(info.Memory.Image),
	), nil
}

// load loads an example and builds it if necessary.
func load(ctx context.Context, loader *module.Loader, root, name string, s source) (*module.Module, error) {
	at := path.Join(folder, name)
	switch s.language {
	case "TypeScript":
		return loader.Load(ctx, filepath.Join(root, filepath.FromSlash(at), s.path), policy.Limits{})
	case "Go":
	default:
		at = path.Join(at, s.path)
	}
	file, err := guestbuild.Module(ctx, root, at)
	if err != nil {
		return nil, err
	}
	return loader.Load(ctx, file, policy.Limits{})
}

// about returns the first sentence after the title.
func about(readme string) string {
	_, text, _ := strings.Cut(readme, "\n")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if at := strings.Index(text, ". "); at >= 0 {
		text = text[:at]
	}
	return strings.ReplaceAll(strings.TrimRight(text, ".:"), "|", `\|`)
}

// others returns links to the languages of an example, or "" if Go is the only one.
func others(name string, have []source) string {
	if len(have) == 1 && have[0].language == "Go" {
		return ""
	}
	var links []string
	for _, s := range have {
		links = append(links, fmt.Sprintf("[%s](%s/%s)", s.language, name, s.path))
	}
	return "; in " + strings.Join(links, ", ")
}

// hooks returns the list of the hooks that runs call, with their fuel if measured is set.
func hooks(ctx context.Context, m *module.Module, name string, measured bool) (string, error) {
	fuel := map[abi.Hook]string{}
	if measured {
		result, err := bench.Run(ctx, m, &bench.Options{Config: json.RawMessage(cmp.Or(configs[name], "{}"))})
		if err != nil {
			return "", err
		}
		for _, r := range result {
			switch {
			case r.Faulted > 0 || r.Failed > 0:
				return "", fmt.Errorf("%s: %s", r.Hook, r.Problem)
			case r.Calls > 0:
				fuel[r.Hook] = " " + count(r.Fuel)
			}
		}
	}
	var out []string
	for _, h := range m.Info().Hooks {
		if h != contract.HookConfigure && h != contract.HookDescribe {
			out = append(out, "`"+string(h)+"`"+fuel[h])
		}
	}
	return strings.Join(out, "<br>"), nil
}

var granted = regexp.MustCompile("grants? `([a-z]+)")

// grants returns the grants that a module can use, from its imports. A script has all imports of
// its engine, so its README decides.
func grants(info *module.Info, readme string) string {
	var out []string
	if info.Transport == "javascript" {
		for _, found := range granted.FindAllStringSubmatch(readme, -1) {
			out = append(out, "`"+found[1]+"`")
		}
	} else {
		for _, p := range info.Imports {
			if p.Grant != "" {
				out = append(out, "`"+p.Grant+"`")
			}
		}
	}
	if len(out) == 0 {
		return "–"
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// count formats a number with at most three significant digits.
func count(n uint64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.3gk", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.3gM", float64(n)/1e6)
	}
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
