package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// maxConfig is the maximum size of a module's configuration file, in bytes.
const maxConfig = 8 << 20

// agentFile returns the agent of -f, or an empty one, with the flags applied.
func (c *runCommand) agentFile(ctx context.Context) (*agentfile.File, error) {
	f := &agentfile.File{}
	if c.file != "" {
		var err error
		if f, err = agentfile.Load(c.file); err != nil {
			return nil, err
		}
		if err := hosting.BuildModules(ctx, c.env, f); err != nil {
			return nil, err
		}
	}
	if c.model != "" {
		f.Model.Name = c.model
	}
	if c.baseURL != "" {
		if err := f.Model.BaseURL.UnmarshalText([]byte(c.baseURL)); err != nil {
			return nil, cli.Usagef("--base-url: %v", err)
		}
	}
	if c.instruction != "" {
		f.Instruction = c.instruction
	}
	if c.maxSteps > 0 {
		f.Limits.MaxSteps = c.maxSteps
	}
	if c.timeout > 0 {
		f.Limits.Timeout = agentfile.Duration(c.timeout)
	}
	if c.noStream {
		f.Stream = new(bool)
	}
	if err := c.addTools(&f.Tools); err != nil {
		return nil, err
	}
	if err := c.addModules(ctx, f); err != nil {
		return nil, err
	}
	if err := c.grant(f); err != nil {
		return nil, err
	}
	if err := c.configure(f); err != nil {
		return nil, err
	}
	return f, agentfile.CheckBounds(f)
}

func (c *runCommand) addTools(t *agentfile.Tools) error {
	if c.root != "" {
		t.Root = agentfile.Path(c.root)
	}
	if c.noTools {
		t.Builtin = &[]agentfile.Builtin{}
	}
	if len(c.tools) > 0 {
		chosen := make([]agentfile.Builtin, len(c.tools))
		for i, name := range c.tools {
			if err := chosen[i].UnmarshalText([]byte(name)); err != nil {
				return cli.Usagef("--tool: %v", err)
			}
			if t.Root == "" && agentfile.NeedsRoot(chosen[i]) {
				return cli.Usagef("--tool %s needs --root DIR: the directory it may read", name)
			}
		}
		t.Builtin = &chosen
	}
	for _, text := range c.mcp {
		server, err := parseMCP(text)
		if err != nil {
			return cli.Usagef("--mcp: %v", err)
		}
		server.SetName()
		t.MCP = append(t.MCP, *server)
	}
	return nil
}

// addModules appends the modules of -m to those of the file, and builds source folders.
func (c *runCommand) addModules(ctx context.Context, f *agentfile.File) error {
	for _, given := range c.modules {
		path, err := hosting.Buildable(ctx, c.env, given)
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
	for _, e := range hosting.Entries(f) {
		names = append(names, e.Name)
	}
	return names
}

// grant adds the grants of --grant to the entries of f.
func (c *runCommand) grant(f *agentfile.File) error {
	all := hosting.Entries(f)
	for _, text := range c.grants {
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
func (c *runCommand) configure(f *agentfile.File) error {
	given := map[string]bool{}
	for _, text := range c.configs {
		name, config, ok := strings.Cut(text, "=")
		if !ok || name == "" || config == "" {
			return cli.Usagef("--module-config %q: want NAME=JSON or NAME=@FILE", cli.Short(text, 60))
		}
		all := hosting.Entries(f)
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
