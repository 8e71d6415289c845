package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool/builtin"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// check validates the file's values and the constraints between them, and sets default names.
func (f *File) check() error {
	if err := f.checkModel(); err != nil {
		return err
	}
	if err := f.checkTools(); err != nil {
		return err
	}
	if err := f.checkMiddlewares(); err != nil {
		return err
	}
	if err := f.checkSecrets(); err != nil {
		return err
	}
	if err := f.checkAgents(); err != nil {
		return err
	}
	for name, n := range f.Limits.Tools {
		if n < 1 {
			return ErrorAt(f,
				"limits.tools."+name,
				fmt.Errorf("%s: want a number above 0; to disable the tool, remove it from the tools", name),
			)
		}
	}
	return f.checkPositive("limits", f.Limits)
}

func (f *File) checkModel() error {
	if r := f.Model.Retries; r != nil && *r < 0 {
		return ErrorAt(f, "model.retries", errors.New("retries: want 0 or more"))
	}
	for name, value := range f.Model.Params {
		same := func(part string) bool { return strings.EqualFold(part, name) } // some endpoints ignore case
		if slices.ContainsFunc([]string{"model", "messages", "tools", "stream"}, same) {
			return ErrorAt(f, "model.params."+name, fmt.Errorf("params: %s is set by the host; remove it", name))
		}
		if !json.Valid(value) {
			return ErrorAt(f, "model.params."+name, fmt.Errorf("params: %s is not a valid value", name))
		}
	}
	for i, fallback := range f.Model.Fallbacks {
		if fallback.Name == "" {
			return ErrorAt(f, fmt.Sprintf("model.fallbacks[%d]", i), errors.New("a fallback needs the name of its model: name"))
		}
	}
	return nil
}

// NeedsRoot reports whether the built-in tool called name reads files, so that it needs Tools.Root.
func NeedsRoot(name Builtin) bool {
	_, err := builtin.Set(&builtin.Options{Tools: []string{string(name)}})
	return err != nil
}

func (f *File) checkTools() error {
	if f.Tools.Builtin != nil {
		for i, name := range *f.Tools.Builtin {
			at := fmt.Sprintf("tools.builtin[%d]", i)
			if slices.Contains((*f.Tools.Builtin)[:i], name) {
				return ErrorAt(f, at, fmt.Errorf("duplicate built-in tool %q", name))
			}
			if f.Tools.Root == "" && NeedsRoot(name) {
				return ErrorAt(f, at, fmt.Errorf("%s needs tools.root: the directory it can read", name))
			}
		}
	}
	names := map[string]bool{}
	for i := range f.Tools.MCP {
		s, at := &f.Tools.MCP[i], fmt.Sprintf("tools.mcp[%d]", i)
		switch {
		case s.Command == nil && s.URL == "":
			return ErrorAt(f, at, errors.New("an MCP server needs a command or a url"))
		case s.Command != nil && s.URL != "":
			return ErrorAt(f, at, errors.New("an MCP server has a command or a url, not both"))
		case s.URL != "" && s.Env != nil:
			return ErrorAt(f, at+".env", errors.New("env needs a command; a server at a url has its own environment"))
		case s.URL == "" && s.APIKeyEnv != "":
			return ErrorAt(f,
				at+".api_key_env",
				errors.New("api_key_env needs a url; a command inherits this program's environment"),
			)
		case len(s.Command) == 0 && s.URL == "" || s.Command != nil && s.Command[0] == "":
			return ErrorAt(f, at+".command", errors.New("command: want a program and its arguments"))
		}
		s.SetName()
		if names[s.Name] {
			return ErrorAt(f, at, fmt.Errorf("two MCP servers are named %q; rename one of them", s.Name))
		}
		names[s.Name] = true
	}
	return nil
}

// SetName sets the name of a server that has none. The default is the file name of the server's
// command without .exe, or the host of its URL.
func (s *MCPServer) SetName() {
	if s.Name != "" {
		return
	}
	if s.URL == "" {
		s.Name = strings.TrimSuffix(filepath.Base(s.Command[0]), ".exe")
		return
	}
	at, _ := url.Parse(string(s.URL))
	s.Name = at.Host
}

func (f *File) checkSecrets() error {
	names := map[string]bool{}
	for i := range f.Secrets {
		s, at := &f.Secrets[i], fmt.Sprintf("secrets[%d]", i)
		_, err := egress.ParsePatterns(s.Hosts)
		switch {
		case !egress.ValidSecretName(s.Name):
			return ErrorAt(f, at, errors.New("a secret needs a name of letters, digits, _ and -"))
		case names[s.Name]:
			return ErrorAt(f, at, fmt.Errorf("two secrets are named %s", s.Name))
		case s.Env == "":
			return ErrorAt(f, at, fmt.Errorf("secret %s needs env: the environment variable with its value", s.Name))
		case len(s.Hosts) == 0:
			return ErrorAt(f, at, fmt.Errorf("secret %s needs hosts: those to which it may be sent", s.Name))
		case err != nil:
			return ErrorAt(f, at+".hosts", err)
		}
		names[s.Name] = true
	}
	return nil
}

func (f *File) checkMiddlewares() error {
	at := map[string]string{}
	for _, ring := range []struct {
		path string
		list []Middleware
	}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
		for i := range ring.list {
			m, path := &ring.list[i], ring.path+"["+strconv.Itoa(i)+"]"
			if m.Module == "" {
				return ErrorAt(f, path, errors.New("a middleware needs a module: the path of a .wasm file"))
			}
			if m.Name == "" {
				m.Name = EntryName(string(m.Module))
			}
			if first, ok := at[m.Name]; ok {
				return ErrorAt(f, path, fmt.Errorf("%s has the same name %q; rename one of them", first, m.Name))
			}
			at[m.Name] = path
			if _, err := m.ModuleGrants(); err != nil {
				return ErrorAt(f, path+".grants", err)
			}
			if err := hook.CheckWhen((*hook.When)(&m.When)); err != nil {
				return ErrorAt(f, path+".when", fmt.Errorf("when: %w", err))
			}
			if err := f.checkPositive(path+".limits", m.Limits); err != nil {
				return err
			}
		}
	}
	return nil
}

// EntryName returns the default name of a module's entry: the file name without its extension, or the module's
// name without its version, such as redact for redact@1.2.
func EntryName(module string) string {
	base := filepath.Base(module)
	if name, _, ok := strings.Cut(base, "@"); ok && name != "" {
		return name
	}
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// ModuleGrants parses the grants of the entry. It returns an error if one of them is unknown or
// malformed.
func (m *Middleware) ModuleGrants() (policy.Grants, error) {
	list := make([]string, len(m.Grants))
	for i, g := range m.Grants {
		list[i] = string(g)
	}
	return policy.ParseGrants(list)
}

// checkPositive returns an error if a number of limits is set in the file and below 1. path is the
// path of limits in the file.
func (f *File) checkPositive(path string, limits any) error {
	v := reflect.ValueOf(limits)
	for name, index := range fieldsOf(v.Type()) {
		at := path + "." + name
		if _, stands := f.mark(at); stands && v.FieldByIndex(index).CanInt() && v.FieldByIndex(index).Int() < 1 {
			return ErrorAt(f, at, fmt.Errorf("%s: want a number above 0", name))
		}
	}
	return nil
}

// locate joins relative paths with dir, checks that the paths exist, and loads the files of
// sub-agents. It sets dir as the working directory of MCP servers. files lists the absolute paths
// of the enclosing files.
func (f *File) locate(dir string, files []string) error {
	if f.Tools.Root != "" {
		f.Tools.Root = join(dir, f.Tools.Root)
		info, err := os.Stat(string(f.Tools.Root))
		if err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return ErrorAt(f, "tools.root", fmt.Errorf("root: %s: %w", f.Tools.Root, cause(err)))
		}
	}
	for path, list := range map[string][]Middleware{
		"rings.outer": f.Rings.Outer, "middlewares": f.Middlewares, "rings.inner": f.Rings.Inner,
	} {
		for i := range list {
			list[i].Module = join(dir, list[i].Module)
			if _, err := os.Stat(string(list[i].Module)); err != nil {
				return ErrorAt(f, fmt.Sprintf("%s[%d].module", path, i),
					fmt.Errorf("module: %s: %w; paths are relative to this file", list[i].Module, cause(err)))
			}
		}
	}
	for i := range f.Tools.MCP {
		f.Tools.MCP[i].Dir = dir
	}
	return f.locateAgents(dir, files)
}

func join(dir string, p Path) Path {
	if filepath.IsAbs(string(p)) {
		return p
	}
	return Path(filepath.Join(dir, string(p)))
}
