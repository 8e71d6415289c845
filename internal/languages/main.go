// Command languages writes docs/languages.md, which compares the languages of middlewares. It uses
// the examples that exist in several languages. It builds and loads each version of an example, and
// runs all versions on the same conversation.
// Run it in the repository:
//
//	go run ./internal/languages > docs/languages.md
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/conformance"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/bench"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

const examples = "examples/wasm-middlewares"

// configs maps the names of examples that have no effect without a configuration to one.
var configs = map[string]string{
	"tool-policy": `{"rules":[{"tools":["read_*"],"action":"deny","arguments":[{"path":"path","pattern":"(^|/)secret(/|$)"}]}]}`,
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "languages:", err)
		os.Exit(1)
	}
}

// run writes the page to out.
func run(ctx context.Context, out io.Writer) error {
	root, err := guestbuild.Root()
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "languages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	loader, err := module.NewLoader(ctx, &module.LoaderOptions{CacheDir: cache})
	if err != nil {
		return err
	}
	defer loader.Close(ctx)
	names, err := inSeveral(root)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, head, runtime.GOARCH)
	for _, name := range names {
		fmt.Fprintf(
			out,
			"\n## %s\n\n| | size | image | load | hook | fuel | time | host calls | pages grown |\n|---|---:|---:|---:|---|---:|---:|---:|---:|\n",
			name,
		)
		for _, l := range languages {
			source := path.Join(examples, name, strings.ReplaceAll(l.source, "NAME", name))
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				continue
			}
			if err := rows(ctx, out, loader, root, name, &l); err != nil {
				return fmt.Errorf("%s in %s: %w", name, l.name, err)
			}
			if l.name != "Go" {
				continue
			}
			l.name = tinyGo
			if err := rows(ctx, out, loader, root, name, &l); err != nil {
				return fmt.Errorf("%s in %s: %w", name, l.name, err)
			}
		}
		if err := cases(out, root, name); err != nil {
			return err
		}
	}
	return nil
}

// cases writes a table of an example's test conversations, with a column for each of the example's
// languages. A cell says that the conversation passes, or why that language omits it.
func cases(out io.Writer, root, name string) error {
	folder := filepath.Join(root, filepath.FromSlash(examples), name)
	all, err := golden.Load(os.DirFS(folder))
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n| conversation |")
	var without []map[string]string
	for _, l := range languages {
		source := filepath.Join(folder, strings.ReplaceAll(l.source, "NAME", name))
		if _, err := os.Stat(source); err != nil {
			continue
		}
		fmt.Fprintf(out, " %s |", l.name)
		leaves, err := conformance.LeavesOut(source)
		if err != nil {
			return err
		}
		without = append(without, leaves)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(without)))
	for _, c := range all {
		fmt.Fprintf(out, "| [%s](../%s/%s/%s.txtar) |", c.Name, examples, name, c.Name)
		for _, leaves := range without {
			if why := leaves[c.Name]; why != "" {
				fmt.Fprintf(out, " leaves out %s |", why)
				continue
			}
			fmt.Fprint(out, " passes |")
		}
		fmt.Fprintln(out)
	}
	return nil
}

// tinyGo labels the row of a Go example that is built with TinyGo.
const tinyGo = "Go (TinyGo)"

// A language names a language, its sources in an example's folder, and the subfolder of those
// sources.
type language struct{ name, source, folder string }

var languages = []language{
	{"C", "c", "c"},
	{"Rust", "rust", "rust"},
	{"AssemblyScript", "assemblyscript", "assemblyscript"},
	{"Go", "main.go", ""},
	{"TypeScript", "NAME.ts", ""},
}

// inSeveral returns the sorted names of the examples that exist in C, Rust or AssemblyScript, in
// addition to Go.
func inSeveral(root string) ([]string, error) {
	var names []string
	for _, folder := range guestbuild.Languages {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(examples), "*", folder))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			names = append(names, filepath.Base(filepath.Dir(f)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// rows writes a row for each hook of a module.
func rows(ctx context.Context, out io.Writer, loader *module.Loader, root, name string, l *language) error {
	folder := path.Join(examples, name)
	file := filepath.Join(root, folder, name+".ts")
	var err error
	switch l.name {
	case "TypeScript":
	case tinyGo:
		file, _, err = guestbuild.TinyGoModule(ctx, root, folder)
	default:
		file, err = guestbuild.Module(ctx, root, path.Join(folder, l.folder))
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	began := time.Now()
	m, err := loader.Load(ctx, file, policy.Limits{})
	if err != nil {
		return err
	}
	defer m.Close()
	load := time.Since(began)
	var config json.RawMessage
	if c, ok := configs[name]; ok {
		config = json.RawMessage(c)
	}
	result, err := bench.Run(ctx, m, &bench.Options{Config: config, Runs: 100})
	if err != nil {
		return err
	}
	first := fmt.Sprintf(
		"| %s | %s | %s | %d ms ",
		l.name,
		size(info.Size()),
		size(m.Info().Memory.Image),
		load.Milliseconds(),
	)
	for _, r := range result {
		if r.Calls == 0 {
			continue
		}
		if r.Failed+r.Faulted > 0 {
			return fmt.Errorf("%s: %s", r.Hook, r.Problem)
		}
		fmt.Fprintf(
			out,
			"%s| `%s` | %d | %.0f us | %d | %d |\n",
			first,
			r.Hook,
			r.Fuel,
			float64(r.TimeNS)/1e3,
			r.HostCalls,
			r.Pages,
		)
		first = strings.Repeat("| ", 4)
	}
	return nil
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

const head = `# The languages compared

` + "`make languages`" + ` writes this page: the examples that there are in several languages, each built, loaded, and
run a hundred times on one conversation of twenty messages (%s). Below each is which of its test conversations pass in
which language. The SDKs for C, Rust and AssemblyScript pass the golden vectors of [testdata/abi](../testdata/abi) byte
by byte, and ask the host for the same things in the same words ([internal/sdktest](../internal/sdktest)).

- **size** is the module's file; of TypeScript the source: its engine, some 640 KB, is part of the host and shared.
- **image** is the memory that every instance begins with. Pages that are not written to are shared.
- **load** is compiling, and running what the module does at its start, without a cache. The second time is a tenth of
  it or less.
- **fuel** is the same on every machine. **time** has the host's part, and depends on the machine and on what else it
  does.

| language | SDK | toolchain | good to know |
|---|---|---|---|
| C | [one header](../guest-sdk/c) | clang, lld | the smallest; memory is an arena that is emptied before each hook |
| Rust | [a crate](../guest-sdk/rust) | rustc 1.63, the target wasm32-unknown-unknown | what panics ends the hook; serde behind a feature |
| AssemblyScript | [an npm package](../guest-sdk/assemblyscript) | Node.js, asc | the syntax of TypeScript, without closures and exceptions |
| Go | [a package](../guest-sdk/go) | Go 1.26 | the most convenient SDK: lists that are edited in place, tests with ` + "`go test`" + ` |
| Go | [a package](../guest-sdk/go) | TinyGo 0.41 | the same sources: no goroutines, no recover; a full memory is emptied before a hook |
| TypeScript | [a package of types](../guest-sdk/typescript) | none | runs as it is, in an interpreter |
`
