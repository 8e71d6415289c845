package tck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// The values of Options.Transport.
const (
	native     = "native"
	extism     = "extism"
	typeScript = "typescript"
)

const modulePath = "github.com/agent-runner/agent-runner"

// sourceFolders are the folders of the module with the packages that the cases' modules import.
var sourceFolders = []string{
	"abi", "guest-sdk/go/internal/clone", "guest-sdk/go/internal/schema", "guest-sdk/go/middleware",
	"internal/abijson", "internal/chunkjoin", "internal/contract", "internal/jsoncodec", "internal/word", suiteFolder,
}

const (
	suiteFolder = "tck/suite"
	rawModules  = "testdata/modules" // .wasm files that cases name
)

// build returns the folder with the cases' modules for a transport. It builds them, unless the user's
// cache folder has a build of the same sources.
func build(ctx context.Context, cases []*golden.Case, transport string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	cache := testcache.Cases()
	if cache == "" {
		return "", errors.New("build the modules of the cases: this user has no cache folder; set HOME or XDG_CACHE_HOME")
	}
	out, err := outputs(root, cases, transport)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, transport+"-"+out.hash())
	if _, err := os.Stat(folder); err == nil {
		testcache.Use(folder)
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	testcache.RemoveUnused(cache)
	work, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := out.write(ctx, work, transport); err != nil {
		return "", err
	}
	err = os.Rename(filepath.Join(work, "out"), folder)
	if _, missing := os.Stat(folder); missing == nil {
		err = nil // another process has built the modules meanwhile
	}
	return folder, err
}

// moduleRoot returns the folder of this Go module's source.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", modulePath).Output()
	root := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	case err == nil && root == "":
		err = errors.New("it is not downloaded")
	}
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w; run the kit in its repository, or in a module that requires it",
			modulePath, err)
	}
	return root, nil
}

// contents maps the slash-separated paths of files to their contents.
type contents map[string][]byte

// outputs returns the files that the build for a transport writes. The files in src/ are the program
// to compile, and the files in out/ are modules that need no compiler. root is the folder of this Go
// module's source.
func outputs(root string, cases []*golden.Case, transport string) (contents, error) {
	all := contents{}
	if err := all.addFolder(root, rawModules, "out/", ".wasm"); err != nil {
		return nil, err
	}
	for _, c := range cases {
		if transport == typeScript {
			for name, source := range c.Scripts {
				all["out/"+c.Name+"/"+name+".ts"] = source
			}
		}
	}
	if transport == typeScript {
		return all, nil
	}
	for _, folder := range sourceFolders {
		if err := all.addFolder(root, folder, "src/"+folder+"/", ".go"); err != nil {
			return nil, err
		}
	}
	if transport == extism {
		// The SDK then calls the host through Extism's functions.
		if err := all.addFolder(root, suiteFolder+"/testdata/extism", "src/guest-sdk/go/middleware/", ".go"); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		all["src/"+name] = b
	}
	return all, all.addCases(cases)
}

// addFolder adds the files in a folder whose names end with suffix, except tests. The path of a
// file in all is the prefix to followed by the file's name.
func (all contents) addFolder(root, folder, to, suffix string) error {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*"+suffix))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all[to+filepath.Base(path)] = b
	}
	return nil
}

// addCases adds the Go modules of the cases, and a file that registers them.
func (all contents) addCases(cases []*golden.Case) error {
	var names []string
	for _, c := range cases {
		for _, module := range c.ModuleNames() {
			name := c.Name + "/" + module
			names = append(names, name)
			all["src/"+suiteFolder+"/"+packageFolder(name)+"/module.go"] = c.Modules[module]
		}
	}
	var table bytes.Buffer
	if err := tableTemplate.Execute(&table, names); err != nil {
		return err
	}
	all["src/"+suiteFolder+"/modules.go"] = table.Bytes()
	return nil
}

// packageFolder returns the folder of a module's source in the program. The folder's name is valid
// for a Go package.
func packageFolder(name string) string {
	return strings.NewReplacer("/", "_", ".", "_").Replace(name)
}

var tableTemplate = template.Must(
	template.New("table").Funcs(template.FuncMap{"folder": packageFolder}).Parse(`package main

import (
{{- range $i, $name := .}}
	m{{$i}} "` + modulePath + "/" + suiteFolder + `/{{folder $name}}"
{{- end}}
)

func init() {
{{- range $i, $name := .}}
	modules["{{$name}}"] = func() any { return new(m{{$i}}.Middleware) }
{{- end}}
}
`),
)

func (all contents) paths() []string {
	var out []string
	for path := range all {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

func (all contents) hash() string {
	sum := sha256.New()
	for _, path := range all.paths() {
		fmt.Fprintf(sum, "%s %d\n", path, len(all[path]))
		_, _ = io.Copy(sum, bytes.NewReader(all[path]))
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// write writes the files below the folder work. It then compiles the program, except for the
// TypeScript transport.
func (all contents) write(ctx context.Context, work, transport string) error {
	for _, path := range all.paths() {
		file := filepath.Join(work, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, all[path], 0o644); err != nil {
			return err
		}
	}
	if transport == typeScript {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-buildmode=c-shared", "-o", filepath.Join(work, "out", suiteFile), "./"+suiteFolder)
	cmd.Dir = filepath.Join(work, "src")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the modules of the cases: %w\n%s", err, out)
	}
	return nil
}

// suiteFile is the module with all Go modules of all cases.
const suiteFile = "suite.wasm"

// resolve replaces the names of modules in a request with paths in a folder of built modules. All Go
// modules have the path of the suite; the configuration selects a module in the suite.
func resolve(r *wire.Request, folder, transport string) error {
	for _, a := range []*wire.Agent{r.Agent, r.Resumed} {
		if a == nil {
			continue
		}
		if err := resolveAgent(a, r.ID, folder, transport); err != nil {
			return err
		}
	}
	return nil
}

func resolveAgent(a *wire.Agent, name, folder, transport string) error {
	if a.Middlewares == nil {
		a.Middlewares = []wire.Middleware{}
	}
	for _, list := range [][]wire.Middleware{a.Middlewares, a.Given} {
		for i := range list {
			if err := resolveModule(&list[i], name, folder, transport); err != nil {
				return err
			}
		}
	}
	for _, other := range a.Agents {
		if err := resolveAgent(other, name, folder, transport); err != nil {
			return err
		}
	}
	return nil
}

func resolveModule(m *wire.Middleware, name, folder, transport string) (err error) {
	stem, kind, _ := strings.Cut(m.Module, ".")
	switch {
	case kind != "go":
		m.Module = filepath.Join(folder, m.Module)
	case m.Hooks == nil:
		err = fmt.Errorf("the case has no module %q", m.Module)
	case transport == typeScript:
		m.Module = filepath.Join(folder, name, stem+".ts")
	default:
		use := struct {
			Use    string          `json:"use"`
			Config json.RawMessage `json:"config,omitempty"`
		}{name + "/" + stem, m.Config}
		m.Module = filepath.Join(folder, suiteFile)
		m.Config, err = abijson.Marshal(use)
	}
	return err
}
