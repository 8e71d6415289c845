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

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"

	guestsdk "github.com/agent-runner/agent-runner/guest-sdk"
)

// templates holds the module templates, one folder per language.
//
//go:embed templates
var templates embed.FS

// moduleNames matches names that are valid in every language.
var moduleNames = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

// newModuleNew returns the command that creates a module from a template.
func newModuleNew(e *cli.Env) *cobra.Command {
	var lang, sdk string
	langs := newLanguages()
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a module from a template",
		Long: `Creates a folder NAME with a middleware that denies calls of some tools, and a
conversation that tests it. The folder builds and passes its test; edit it to write
your own module.`,
		Example: `  agent-runner module new guard --lang ts && agent-runner module test guard
  agent-runner module new guard --lang go      # or rust, c, assemblyscript`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want a name: agent-runner module new NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, name := args[0], filepath.Base(args[0])
			folder, ok := langs[cmp.Or(longNames[lang], lang)]
			switch {
			case !moduleNames.MatchString(name):
				return cli.Usagef("%q is not a valid module name; want lowercase letters, digits and -, starting with a letter",
					cli.Short(name, 60))
			case !ok:
				return cli.Usagef("--lang is %q; want one of %s", lang, strings.Join(languageNames(), ", "))
			}
			if _, err := os.Lstat(dir); err == nil {
				return cli.Usagef("%s already exists; choose another name, or remove it", dir)
			}
			values, err := newTemplateValues(name, sdk)
			if err != nil {
				return err
			}
			if lang == "go" && values.SDK == "" && values.Version == unreleased {
				return cli.Usagef(
					"this agent-runner is not a release, so Go cannot fetch its SDK; name a checkout of %s: --sdk DIR",
					sdkModule,
				)
			}
			written, err := writeTemplate(folder, dir, values)
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
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "ts", "the `LANGUAGE`: "+strings.Join(languageNames(), ", "))
	cmd.Flags().
		StringVar(&sdk, "sdk", "", "use the SDK of the checkout in `DIR` (default: the released SDK, or that of the checkout that agent-runner was built in)")
	return cmd
}

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
	SDK     string // the checkout with the SDK; optional
}

// unreleased is the version of a build from a checkout.
const unreleased = "v0.0.0"

const sdkModule = "github.com/agent-runner/agent-runner"

func newTemplateValues(name, sdk string) (*templateValues, error) {
	v := &templateValues{Name: name, Ident: strings.ReplaceAll(name, "-", "_"), Version: unreleased, SDK: sdk}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") &&
		!strings.Contains(info.Main.Version, "+dirty") &&
		sdk == "" {
		v.Version = info.Main.Version
	}
	if v.SDK == "" && (v.Version == unreleased || strings.HasPrefix(v.Version, unreleased+"-")) {
		v.SDK = checkout()
	}
	if v.SDK == "" {
		return v, nil
	}
	abs, err := filepath.Abs(v.SDK)
	if err != nil {
		return nil, err
	}
	if !isCheckout(abs) {
		return nil, cli.Usagef("--sdk: %s is not a checkout of %s", v.SDK, sdkModule)
	}
	v.SDK = filepath.ToSlash(abs)
	return v, nil
}

// checkout returns the checkout that contains the executable or the working directory,
// or "".
func checkout() string {
	var from []string
	if exe, err := os.Executable(); err == nil {
		from = append(from, filepath.Dir(exe))
	}
	if wd, err := os.Getwd(); err == nil {
		from = append(from, wd)
	}
	for _, dir := range from {
		for ; ; dir = filepath.Dir(dir) {
			if isCheckout(dir) {
				return dir
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

func isCheckout(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(b, []byte("module "+sdkModule+"\n"))
}

// copySDK copies the SDK of C, Rust or AssemblyScript into the module's folder, because these SDKs
// are in no package registry. It does nothing for other languages.
func copySDK(language, dir string) error {
	from, to := language, dir
	switch language {
	case "c":
	case "rust", "assemblyscript":
		to = filepath.Join(dir, "agent-middleware")
	default:
		return nil
	}
	return fs.WalkDir(guestsdk.Files, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := guestsdk.Files.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, from+"/")))
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
