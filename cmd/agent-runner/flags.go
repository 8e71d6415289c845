package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
	"github.com/agent-runner/agent-runner/host/tool/mcp"
	"github.com/agent-runner/agent-runner/internal/agentfile"
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
	}
	if c.model != "" {
		f.Model.Name = c.model
	}
	if c.baseURL != "" {
		if err := f.Model.BaseURL.UnmarshalText([]byte(c.baseURL)); err != nil {
			return nil, usagef("--base-url: %v", err)
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
	return f, f.CheckBounds()
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
				return usagef("--tool: %v", err)
			}
			if t.Root == "" && name != builtin.Time && name != builtin.Calculator {
				return usagef("--tool %s needs --root DIR: the directory it may read", name)
			}
		}
		t.Builtin = &chosen
	}
	for _, text := range c.mcp {
		o, err := mcp.ParseOptions(text)
		if err != nil {
			return usagef("--mcp: %v", err)
		}
		server := agentfile.MCPServer{Command: o.Command, URL: agentfile.URL(o.URL)}
		server.SetName()
		t.MCP = append(t.MCP, server)
	}
	return nil
}

// addModules appends the modules of -m to those of the file, and builds source folders.
func (c *runCommand) addModules(ctx context.Context, f *agentfile.File) error {
	for _, given := range c.modules {
		path, err := buildable(ctx, c.env, given)
		if err != nil {
			return fmt.Errorf("-m %s: %w", given, beforeRun(ctx, err))
		}
		name := agentfile.EntryName(path)
		if path == "" || name == "" {
			return usagef("-m %q: want the path of a .wasm file, of a script, or of the folder of its sources", path)
		}
		if slices.Contains(entryNames(f), name) {
			return usagef("-m %s: another module is already named %q; rename the file, or set a name in an agent.yaml", path, name)
		}
		f.Middlewares = append(f.Middlewares, agentfile.Middleware{Module: agentfile.Path(path), Name: name})
	}
	return nil
}

func entryNames(f *agentfile.File) []string {
	var names []string
	for _, e := range entries(f) {
		names = append(names, e.Name)
	}
	return names
}

// entries returns all module entries of a file, outermost first.
func entries(f *agentfile.File) []*agentfile.Middleware {
	var out []*agentfile.Middleware
	for _, list := range [][]agentfile.Middleware{f.Rings.Outer, f.Middlewares, f.Rings.Inner} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// grant applies --grant.
func (c *runCommand) grant(f *agentfile.File) error {
	all := entries(f)
	for _, text := range c.grants {
		name, power, ok := strings.Cut(text, "=")
		if !ok || name == "" || power == "" {
			return usagef("--grant %q: want NAME=POWER", short(text, 60))
		}
		at := slices.IndexFunc(all, func(e *agentfile.Middleware) bool { return e.Name == name })
		if at < 0 {
			return usagef("--grant: there is no module %q%s", name, among(name, entryNames(f)))
		}
		var grant agentfile.Grant
		if err := grant.UnmarshalText([]byte(power)); err != nil {
			return usagef("--grant %s: %v", name, err)
		}
		all[at].Grants = append(all[at].Grants, grant)
		if _, err := all[at].ModuleGrants(); err != nil {
			return usagef("--grant %s: %v", name, err)
		}
	}
	return nil
}

// configure applies --module-config.
func (c *runCommand) configure(f *agentfile.File) error {
	given := map[string]bool{}
	for _, text := range c.configs {
		name, config, ok := strings.Cut(text, "=")
		if !ok || name == "" || config == "" {
			return usagef("--module-config %q: want NAME=JSON or NAME=@FILE", short(text, 60))
		}
		all := entries(f)
		at := slices.IndexFunc(all, func(e *agentfile.Middleware) bool { return e.Name == name })
		switch {
		case at < 0:
			return usagef("--module-config: there is no module %q%s", name, among(name, entryNames(f)))
		case given[name]:
			return usagef("--module-config: %s is configured twice", name)
		}
		given[name] = true
		b, from, err := configBytes(name, config)
		if err != nil {
			return err
		}
		if err := abi.Valid(b); err != nil {
			return usagef("%s: not valid JSON: %v", from, err)
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
	b, err := readFile(path, maxConfig)
	if err != nil {
		return nil, "", fmt.Errorf("--module-config %s: %w", name, err)
	}
	return b, path, nil
}
