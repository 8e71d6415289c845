package modules

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	agentrunner "github.com/agent-runner/agent-runner"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// templates holds the module templates, one folder per language.
//
//go:embed templates
var templates embed.FS

// moduleNames matches names that are valid in every language.
var moduleNames = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// newModuleNew returns the command that creates a module from a template.
func newModuleNew(e *cli.Env) *cobra.Command {
	var lang string
	var tinyGo bool
	langs := newLanguages()
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a module from a template",
		Long: `Creates a folder NAME with a middleware that denies calls of some tools, a conversation
that tests it, and a copy of its language's SDK. The folder builds and passes its test;
edit it to write your own module. It needs nothing from a package registry, except
AssemblyScript's compiler.`,
		Example: `  agent-runner module new guard --lang ts && agent-runner module test guard
  agent-runner module new guard --lang go      # or rust, c, assemblyscript`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want a name: agent-runner module new NAME")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, name := args[0], filepath.Base(args[0])
			folder, ok := langs[cmp.Or(longNames[lang], lang)]
			switch {
			case !moduleNames.MatchString(name):
				return cli.Usagef("%q is not a valid module name; want lowercase letters, digits and -, starting with a letter",
					cli.Short(name, 60))
			case !ok:
				return cli.Usagef("--lang is %q; want one of %s", lang, strings.Join(languageNames(), ", "))
			case tinyGo && lang != "go":
				return cli.Usagef("--tinygo: TinyGo builds only Go modules; add --lang go")
			}
			if _, err := os.Lstat(dir); err == nil {
				return cli.Usagef("%s already exists; choose another name, or remove it", dir)
			}
			missing := toolchain.CheckTinyGo()
			if tinyGo && missing != nil {
				return cli.Usagef("--tinygo: %w", missing)
			}
			written, err := writeTemplate(folder, dir, newTemplateValues(name, tinyGo))
			if err == nil {
				err = copySDK(path.Base(folder), dir)
			}
			if err != nil {
				return errors.Join(err, os.RemoveAll(dir))
			}
			for _, path := range written {
				fmt.Fprintln(e.Out, path)
			}
			fmt.Fprintf(e.Out, "\nNext:\n  agent-runner module test %s\n", dir)
			switch {
			case tinyGo:
				fmt.Fprintf(e.Out, "\nTinyGo builds the module because main.go has the line %s.\n", toolchain.TinyGoDirective)
			case lang == "go" && missing == nil:
				fmt.Fprint(e.Out, tinyGoOffer)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "ts", "the `LANGUAGE`: "+strings.Join(languageNames(), ", "))
	cmd.Flags().BoolVar(&tinyGo, "tinygo", false, "with --lang go, create a module that TinyGo builds")
	return cmd
}

// tinyGoOffer is printed for a new Go module if TinyGo is installed.
const tinyGoOffer = `
TinyGo is installed. A module that it builds is about a tenth of the size and twice as
fast, but has no goroutines, no recover, and only part of reflect. To have TinyGo build
this one, add the line ` + toolchain.TinyGoDirective + ` at the beginning of main.go.
`

// longNames maps the full names of languages to their short names in --lang.
var longNames = map[string]string{"typescript": "ts"}

// newLanguages returns the template folders by their names in --lang.
func newLanguages() map[string]string {
	out := map[string]string{}
	entries, _ := templates.ReadDir("templates")
	for _, entry := range entries {
		name := entry.Name()
		name = cmp.Or(longNames[name], name)
		out[name] = path.Join("templates", entry.Name())
	}
	return out
}

func languageNames() []string {
	var out []string
	for name := range newLanguages() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// templateValues holds the values that templates use.
type templateValues struct {
	Name    string
	Ident   string // Name with _ instead of -
	Version string // the SDK's version
	TinyGo  string // the directive that makes TinyGo build a Go module, or ""
}

func newTemplateValues(name string, tinyGo bool) *templateValues {
	v := &templateValues{Name: name, Ident: strings.ReplaceAll(name, "-", "_"), Version: "v0.0.0"}
	if info, ok := debug.ReadBuildInfo(); ok && released.MatchString(info.Main.Version) {
		v.Version = info.Main.Version
	}
	if tinyGo {
		v.TinyGo = toolchain.TinyGoDirective
	}
	return v
}

// released matches the versions of releases. Builds from a checkout have other versions.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// sdkFolder is the folder of a new module that contains its SDK.
const sdkFolder = "agent-middleware"

// copySDK copies a language's SDK into the module's folder, so that the module needs no package
// registry and no other folder of the machine. The Go SDK keeps its paths in the repository,
// because its packages import each other.
func copySDK(language, dir string) error {
	to := filepath.Join(dir, sdkFolder)
	switch language {
	case "go":
		for _, from := range []string{"LICENSE", "abi", "internal", "guest-sdk/go"} {
			if err := copyFiles(from, filepath.Join(to, filepath.FromSlash(from))); err != nil {
				return err
			}
		}
		return nil
	case "c":
		to = dir
	}
	return copyFiles("guest-sdk/"+language, to)
}

// copyFiles copies a file or a folder of [agentrunner.SDKs], without tests.
func copyFiles(from, to string) error {
	return fs.WalkDir(agentrunner.SDKs, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := agentrunner.SDKs.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, from)))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o644)
	})
}

// writeTemplate renders a template's files into a new folder and returns their paths.
func writeTemplate(from, dir string, values *templateValues) (written []string, err error) {
	err = fs.WalkDir(templates, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		t, err := template.New(name).Parse(string(b))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, values); err != nil {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(name, from+"/"), ".tmpl")
		to = filepath.Join(dir, filepath.FromSlash(strings.ReplaceAll(to, "NAME", values.Name)))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		written = append(written, to)
		return os.WriteFile(to, text.Bytes(), 0o644)
	})
	return written, err
}
