package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"text/template"
)

// A Suite holds the Go modules of all cases, built into one WebAssembly module.
type Suite struct {
	Path  string              // path of the WebAssembly module
	Hooks map[string][]string // hooks of each Go module, by "case/module"
	// Default is the module of a case that has no modules and names none.
	Default string
}

// Build builds the modules of the cases unless a cached build exists. root is the repository's
// folder.
func Build(root string, cases []*Case) (*Suite, error) { return build(root, cases, nil) }

// BuildExtism builds the modules as an Extism plug-in: the SDK then calls the host through Extism's
// functions.
func BuildExtism(root string, cases []*Case) (*Suite, error) {
	instead := map[string]string{}
	for _, name := range []string{"wasip1.go", "exports_wasip1.go", "imports_wasip1.go"} {
		instead["guest-sdk/go/middleware/"+name] = "tck/suite/testdata/extism/" + name
	}
	return build(root, cases, instead)
}

// build builds a suite. instead maps files to their replacements.
func build(root string, cases []*Case, instead map[string]string) (*Suite, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := &Suite{Hooks: map[string][]string{}}
	overlay := map[string]string{}
	work, err := os.MkdirTemp("", "cases")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	sum := sha256.New()
	var names []string
	for _, c := range cases {
		for module, source := range c.Modules {
			name := c.Name + "/" + module
			if s.Hooks[name], err = hooksOf(name, source); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	sort.Strings(names)
	program := filepath.Join(root, "tck", "suite")
	add := func(virtual string, content []byte) error {
		fmt.Fprintf(sum, "%s %d\n%s", virtual, len(content), content)
		file := filepath.Join(work, hex.EncodeToString([]byte(virtual)))
		if len(file) > 200 {
			file = filepath.Join(work, fmt.Sprintf("%d.go", len(overlay)))
		}
		overlay[filepath.Join(program, virtual)] = file
		return os.WriteFile(file, content, 0o600)
	}
	for _, c := range cases {
		for _, module := range sortedKeys(c.Modules) {
			if err := add(filepath.Join(folder(c.Name+"/"+module), "module.go"), c.Modules[module]); err != nil {
				return nil, err
			}
		}
	}
	var main strings.Builder
	if err := mainTemplate.Execute(&main, names); err != nil {
		return nil, err
	}
	if err := add("modules.go", []byte(main.String())); err != nil {
		return nil, err
	}
	if err := hashTree(sum, root, "abi", "internal/contract", "guest-sdk/go/middleware", "tck/suite"); err != nil {
		return nil, err
	}
	for file, other := range instead {
		overlay[filepath.Join(root, file)] = filepath.Join(root, other)
		if err := hashTree(sum, root, filepath.Dir(other)); err != nil {
			return nil, err
		}
	}
	s.Path = filepath.Join(root, "build", "cases", hex.EncodeToString(sum.Sum(nil)[:12])+".wasm")
	if _, err := os.Stat(s.Path); err == nil {
		return s, nil
	}
	return s, s.compile(root, work, overlay)
}

func (s *Suite) compile(root, work string, overlay map[string]string) error {
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return err
	}
	fresh := filepath.Join(work, "suite.wasm")
	cmd := exec.Command(
		"go",
		"build",
		"-overlay",
		file,
		"-trimpath",
		"-ldflags=-s -w",
		"-buildmode=c-shared",
		"-o",
		fresh,
		"./tck/suite",
	)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the modules of the cases: %w\n%s", err, out)
	}
	module, err := os.ReadFile(fresh)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(s.Path), "suite")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err := temp.Write(module); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), s.Path)
}

// folder returns the folder of a module's source in the program, a name that is valid for a Go
// package's folder.
func folder(name string) string {
	return strings.NewReplacer("/", "_", ".", "_").Replace(name)
}

var mainTemplate = template.Must(template.New("main").Funcs(template.FuncMap{"folder": folder}).Parse(`package main

import (
{{- range $i, $name := .}}
	m{{$i}} "github.com/agent-runner/agent-runner/tck/suite/{{folder $name}}"
{{- end}}
)

func init() {
{{- range $i, $name := .}}
	modules["{{$name}}"] = func() any { return new(m{{$i}}.Middleware) }
{{- end}}
}
`))

// hooksOf returns the hooks of a module's type Middleware.
func hooksOf(name string, source []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name+".go", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() || f.Name.Name == "Configure" {
			continue
		}
		recv := f.Recv.List[0].Type
		if p, ok := recv.(*ast.StarExpr); ok {
			recv = p.X
		}
		if id, ok := recv.(*ast.Ident); ok && id.Name == "Middleware" {
			out = append(out, snake(f.Name.Name))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s.go has no type Middleware with a hook", name)
	}
	slices.Sort(out)
	return out, nil
}

func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func sortedKeys(m map[string][]byte) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
