// Package toolchain builds modules from sources in the languages with an SDK, using the toolchains
// on the machine.
package toolchain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Language is a language for modules.
type Language struct {
	Name   string
	Script bool // runs without a build
	// has returns the file in a directory that identifies the language, or "".
	has   func(dir string) string
	build func(ctx context.Context, p *Project, out string) error
}

// A Project is the source of a module.
type Project struct {
	Dir      string
	Main     string // the file that identifies the language
	Language *Language

	Strip  bool   // leave out function names, which stack traces and profiles show
	Cache  string // Cargo's target directory; DIR/target if empty
	Node   string // the folder whose node_modules contains asc; DIR if empty
	TinyGo string // the TinyGo command that builds Go; Go's own compiler if empty

	asks string // the Go file with the directive for TinyGo; "" if there is none
}

// languages lists all languages, in the order in which Find tries them.
func languages() []*Language {
	return []*Language{
		{Name: "Rust", has: file("Cargo.toml"), build: buildRust},
		{Name: "AssemblyScript", has: file("assembly/index.ts"), build: buildAssemblyScript},
		{Name: "Go", has: file("go.mod", "main.go"), build: buildGo},
		{Name: "C", has: ending(".c"), build: buildC},
		{Name: "TypeScript", Script: true, has: ending(".ts", ".mts")},
		{Name: "JavaScript", Script: true, has: ending(".js", ".mjs")},
	}
}

// file returns a function that finds the first of the named files that exists in a folder.
func file(names ...string) func(string) string {
	return func(dir string) string {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return name
			}
		}
		return ""
	}
}

// ending returns a function that finds a file with one of the extensions: the one named after the
// folder, or the only one.
func ending(endings ...string) func(string) string {
	return func(dir string) string {
		for _, end := range endings {
			if abs, err := filepath.Abs(dir); err == nil {
				if name := filepath.Base(abs) + end; file(name)(dir) != "" {
					return name
				}
			}
			found, _ := filepath.Glob(filepath.Join(dir, "*"+end))
			var sources []string
			for _, f := range found {
				if !strings.HasSuffix(f, ".d.ts") && !strings.Contains(filepath.Base(f), ".test.") {
					sources = append(sources, filepath.Base(f))
				}
			}
			if len(sources) == 1 {
				return sources[0]
			}
		}
		return ""
	}
}

// Find returns the project in a folder. It returns an error if the folder is missing, or has no file that identifies
// one of the languages.
func Find(dir string) (*Project, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: there is no such folder", dir)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder; name the folder with the sources", dir)
	}
	for _, l := range languages() {
		if main := l.has(dir); main != "" {
			p := &Project{Dir: dir, Main: main, Language: l}
			if l.Name == "Go" {
				if p.asks = asksForTinyGo(dir); p.asks != "" {
					p.TinyGo = TinyGo
				}
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf(
		"there is nothing to build in %s: no main.go, .c, Cargo.toml, assembly/index.ts, .ts or .js; agent-runner module new creates a complete project",
		dir,
	)
}

// What returns the name of the project's language, and of its compiler if it is not the default.
func (p *Project) What() string {
	if p.TinyGo != "" {
		return p.Language.Name + " (TinyGo)"
	}
	return p.Language.Name
}

// Output returns the module's default path: next to its source, named after the folder.
func (p *Project) Output() string {
	name := "module"
	if abs, err := filepath.Abs(p.Dir); err == nil {
		name = filepath.Base(abs)
	}
	return filepath.Join(p.Dir, name+".wasm")
}

// Build builds the module from the project's source and writes it to out. The error wraps a
// [*MissingError] if a tool is missing.
func (p *Project) Build(ctx context.Context, out string) error {
	abs, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := p.Language.build(ctx, p, abs); err != nil {
		return fmt.Errorf("build %s: %w", p.Dir, err)
	}
	return nil
}

// A MissingError names a missing tool and how to install it.
type MissingError struct{ Tool, Install string }

// Error names the tool and how to install it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not on this machine; install it: %s", e.Tool, e.Install)
}

// find returns the path of the first tool in names that is installed.
func find(install string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{names[0], install}
}

// run runs a tool in the project's folder. The error contains its output.
func (p *Project) run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return fmt.Errorf("%s says:\n%s", filepath.Base(name), strings.TrimSpace(out.String()))
	}
	return err
}

// linkers lists the names of lld's WebAssembly linker.
var linkers = []string{"wasm-ld", "wasm-ld-14", "wasm-ld-16", "wasm-ld-18", "wasm-ld-19"}

// buildC compiles and links a C module. The linker leaves the host's functions undefined, and the
// header exports the hooks. Compiler and linker run separately, because a clang that links runs
// wasm-opt if it finds one, and wasm-opt may reject features that the module uses.
func buildC(ctx context.Context, p *Project, out string) error {
	const install = "on Debian and Ubuntu: apt-get install clang lld"
	compiler, err := find(install, "clang")
	if err != nil {
		return err
	}
	linker, err := find(install, linkers...)
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(p.Dir, "*.c"))
	if err != nil {
		return err
	}
	objects, err := os.MkdirTemp("", "agent-runner-build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(objects) }()
	link := []string{"--no-entry", "--strip-debug", "-o", out}
	if p.Strip {
		link[1] = "--strip-all"
	}
	for _, s := range sources {
		object := filepath.Join(objects, filepath.Base(s)+".o")
		if err := p.run(ctx, nil, compiler, "--target=wasm32", "-O2", "-nostdlib", "-Wall", "-I.", "-c", "-o", object, filepath.Base(s)); err != nil {
			return err
		}
		link = append(link, object)
	}
	return p.run(ctx, nil, linker, link...)
}

// buildAssemblyScript compiles an AssemblyScript module. If the compiler is missing, it installs
// the dependencies with npm first.
func buildAssemblyScript(ctx context.Context, p *Project, out string) error {
	node := cmp.Or(p.Node, p.Dir)
	tool, err := filepath.Abs(filepath.Join(node, "node_modules", ".bin", "asc"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(tool); err != nil {
		npm, err := find("https://nodejs.org; on Debian and Ubuntu: apt-get install npm", "npm")
		if err != nil {
			return err
		}
		install := &Project{Dir: node}
		if err := install.run(ctx, nil, npm, "install", "--no-audit", "--no-fund"); err != nil {
			return err
		}
	}
	args := []string{"assembly/index.ts", "--target", "release", "--outFile", out}
	if !p.Strip {
		args = append(args, "--debug")
	}
	return p.run(ctx, nil, tool, args...)
}
