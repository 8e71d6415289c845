package main

import (
	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/internal/egress"
)

// networkFlags adds the flags for HTTP requests of modules.
func networkFlags(cmd *cobra.Command, c *runCommand) {
	f := cmd.Flags()
	f.StringArrayVar(&c.secrets, "secret", nil, "a secret that modules send as {{secret:NAME}} without seeing its value: `NAME=env:VARIABLE@HOST`")
	f.StringArrayVar(&c.private, "allow-private", nil, "let modules connect to granted hosts at private addresses in `RANGE`, such as 127.0.0.0/8")
}

// network returns the options for HTTP requests of modules.
func (c *runCommand) network() (*egress.Options, error) {
	o := &egress.Options{}
	for _, text := range c.secrets {
		s, err := egress.ParseSecret(text, c.env.getenv)
		if err != nil {
			return nil, usagef("--secret: %w", err)
		}
		o.Secrets = append(o.Secrets, s)
	}
	for _, text := range c.private {
		p, err := egress.ParsePrivate(text)
		if err != nil {
			return nil, usagef("--allow-private: %w", err)
		}
		o.Private = append(o.Private, p)
	}
	return o, nil
}
