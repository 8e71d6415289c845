package hosting

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// ModuleFlags are the flags that name modules, configure them and give them grants.
type ModuleFlags struct {
	Paths            []string // of -m
	configs, grants  []string
	secrets, private []string
}

// Add adds the flags to a command.
func (m *ModuleFlags) Add(cmd *cobra.Command, e *cli.Env, after string) {
	f := cmd.Flags()
	f.StringArrayVarP(&m.Paths, "module", "m", nil,
		"add the module at `PATH`, or in a source folder, which is built, "+after+"; repeatable")
	TinyGoFlag(cmd, e)
	f.StringArrayVar(&m.configs, "module-config", nil, "configure a module: `NAME=JSON` or NAME=@FILE")
	f.StringArrayVar(&m.grants, "grant", nil,
		"give a module a grant, as in agent.yaml: `NAME=GRANT`, such as notify=http:hooks.example.com")
	m.AddNetwork(cmd)
}

// AddNetwork adds only the flags for HTTP requests of modules.
func (m *ModuleFlags) AddNetwork(cmd *cobra.Command) { NetworkFlags(cmd, &m.secrets, &m.private) }

// Network returns the options for HTTP requests of modules.
func (m *ModuleFlags) Network(e *cli.Env) (*egress.Options, error) {
	return NetworkOptions(e, m.secrets, m.private)
}

// Apply adds the modules, their grants and configurations to f.
func (m *ModuleFlags) Apply(ctx context.Context, e *cli.Env, f *agentfile.File) error {
	if err := m.add(ctx, e, f); err != nil {
		return err
	}
	if err := m.grant(f); err != nil {
		return err
	}
	return m.configure(f)
}

// maxConfig is the maximum size of a module's configuration file, in bytes.
const maxConfig = 8 << 20

// add appends the modules of the flag -m to the modules of the file. If -m names a source folder, add
// builds it.
func (m *ModuleFlags) add(ctx context.Context, e *cli.Env, f *agentfile.File) error {
	for _, given := range m.Paths {
		path, err := Buildable(ctx, e, given)
		if err != nil {
			return fmt.Errorf("-m %s: %w", given, cli.BeforeRun(ctx, err))
		}
		name := agentfile.EntryName(path)
		if path == "" || name == "" {
			return cli.Usagef("-m %q: want the path of a .wasm file, of a script, or of the folder of its sources", path)
		}
		if slices.Contains(entryNames(f), name) {
			return cli.Usagef("-m %s: another module is already named %q; rename the file, or set a name in an agent.yaml",
				path, name)
		}
		f.Middlewares = append(f.Middlewares, agentfile.Middleware{Module: agentfile.Path(path), Name: name})
	}
	return nil
}

func entryNames(f *agentfile.File) []string {
	var names []string
	for _, e := range Entries(f) {
		names = append(names, e.Name)
	}
	return names
}

// grant adds the grants of --grant to the entries of f.
func (m *ModuleFlags) grant(f *agentfile.File) error {
	all := Entries(f)
	for _, text := range m.grants {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return cli.Usagef("--grant %q: want NAME=GRANT", cli.Short(text, 60))
		}
		at := slices.IndexFunc(all, func(e *agentfile.Middleware) bool { return e.Name == name })
		if at < 0 {
			return cli.Usagef("--grant: there is no module %q%s", name, cli.Among(name, entryNames(f)))
		}
		var grant agentfile.Grant
		if err := grant.UnmarshalText([]byte(value)); err != nil {
			return cli.Usagef("--grant %s: %v", name, err)
		}
		all[at].Grants = append(all[at].Grants, grant)
		if _, err := all[at].ModuleGrants(); err != nil {
			return cli.Usagef("--grant %s: %v", name, err)
		}
	}
	return nil
}

// configure sets the configurations of --module-config in the entries of f.
func (m *ModuleFlags) configure(f *agentfile.File) error {
	given := map[string]bool{}
	for _, text := range m.configs {
		name, config, ok := strings.Cut(text, "=")
		if !ok || name == "" || config == "" {
			return cli.Usagef("--module-config %q: want NAME=JSON or NAME=@FILE", cli.Short(text, 60))
		}
		all := Entries(f)
		at := slices.IndexFunc(all, func(e *agentfile.Middleware) bool { return e.Name == name })
		switch {
		case at < 0:
			return cli.Usagef("--module-config: there is no module %q%s", name, cli.Among(name, entryNames(f)))
		case given[name]:
			return cli.Usagef("--module-config: %s is configured twice", name)
		}
		given[name] = true
		b, from, err := configBytes(name, config)
		if err != nil {
			return err
		}
		if err := jsoncodec.Valid(b); err != nil {
			return cli.Usagef("%s: not valid JSON: %v", from, err)
		}
		all[at].Config = b
	}
	return nil
}

// configBytes returns a module's configuration and its name in error messages.
func configBytes(name, config string) (json.RawMessage, string, error) {
	path, isFile := strings.CutPrefix(config, "@")
	if !isFile {
		return json.RawMessage(config), "--module-config " + name, nil
	}
	b, err := cli.ReadFile(path, maxConfig)
	if err != nil {
		return nil, "", fmt.Errorf("--module-config %s: %w", name, err)
	}
	return b, path, nil
}
