package run

import (
	"context"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

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
	if c.provider != "" {
		if err := f.Model.Provider.UnmarshalText([]byte(c.provider)); err != nil {
			return nil, cli.Usagef("--provider: %v", err)
		}
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
	if err := c.modules.Apply(ctx, c.env, f); err != nil {
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
