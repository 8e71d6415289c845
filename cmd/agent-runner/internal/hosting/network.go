package hosting

import (
	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/egress"
)

// NetworkFlags adds the flags for HTTP requests of modules.
func NetworkFlags(cmd *cobra.Command, secrets, private *[]string) {
	f := cmd.Flags()
	f.StringArrayVar(secrets, "secret", nil,
		"a secret that modules send as {{secret:NAME}} without seeing its value: `NAME=env:VARIABLE@HOST`")
	f.StringArrayVar(private, "allow-private", nil,
		"let modules connect to granted hosts at private addresses in `RANGE`, such as 127.0.0.0/8")
}

// NetworkOptions returns the options for HTTP requests of modules. It parses the values of the
// flags that NetworkFlags adds.
func NetworkOptions(e *cli.Env, secrets, private []string) (*egress.Options, error) {
	o := &egress.Options{}
	for _, text := range secrets {
		s, err := egress.ParseSecret(text, e.Getenv)
		if err != nil {
			return nil, cli.Usagef("--secret: %w", err)
		}
		o.Secrets = append(o.Secrets, s)
	}
	for _, text := range private {
		p, err := egress.ParsePrivate(text)
		if err != nil {
			return nil, cli.Usagef("--allow-private: %w", err)
		}
		o.Private = append(o.Private, p)
	}
	return o, nil
}
