package remote

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// NewRoutes returns the "routes" command.
func NewRoutes(e *cli.Env) *cobra.Command {
	return cli.Group(
		&cobra.Command{Use: "routes", Short: "Set, show and delete the tenant's routes to model APIs on a server"},
		routesApply(e),
		routesShow(e),
		routesRemove(e),
	)
}

// appliedGateway is the result of applying a gateway.yaml.
type appliedGateway struct {
	pushes
	Did     string       `json:"did"` // "created", "changed" or "unchanged"
	Gateway *api.Gateway `json:"gateway"`
}

func routesApply(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{
		Use:   "apply FILE",
		Short: "Set the tenant's routes from a gateway.yaml, and upload the modules it names",
		Long: `Stores a gateway.yaml as the tenant's gateway. If the file names a module by path
(relative to the file), the module is uploaded first unless the server already has it,
and the stored file has its digest instead of the path. Keys of upstreams and other
secrets are secrets of the tenant.

Each change creates a new version, which the next request uses.`,
		Example: `  agent-runner secrets set ANTHROPIC_API_KEY
  agent-runner routes apply gateway.yaml
  ANTHROPIC_BASE_URL=https://agents.example.com ANTHROPIC_API_KEY=ar_… claude`,
	}, func(ctx context.Context, r *Session, args []string) error {
		a, err := r.applyGateway(ctx, args[0])
		if err != nil {
			return err
		}
		if r.Output == "json" {
			return cli.PrintJSON(e, a)
		}
		fmt.Fprintf(e.Out, "routes %s, version %d\n", a.Did, a.Gateway.Version)
		return nil
	})
}

// applyGateway stores the gateway of a file on the server. It first uploads the modules that the file
// names by path.
func (r *Session) applyGateway(ctx context.Context, path string) (*appliedGateway, error) {
	text, err := cli.ReadFile(path, agentfile.MaxSize)
	if err != nil {
		return nil, err
	}
	g, err := agentfile.ParseGateway(path, text)
	if err != nil {
		return nil, err
	}
	a := &appliedGateway{pushes: newPushes(path)}
	if text, err = r.pushPaths(ctx, &a.pushes, g.ErrorAt, text); err != nil {
		return nil, err
	}
	before, err := r.Gateway(ctx, 0)
	if err != nil && !unknown(err) {
		return nil, err
	}
	if a.Gateway, err = r.PutGateway(ctx, text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a.Did = did(before.Version, a.Gateway.Version)
	r.warn(a.Gateway.Warnings)
	return a, nil
}

func routesShow(e *cli.Env) *cobra.Command {
	var version int64
	cmd := Command(e, &cobra.Command{Use: "show", Short: "Show the tenant's gateway.yaml and its modules"},
		func(ctx context.Context, r *Session, _ []string) error {
			g, err := r.Gateway(ctx, version)
			if err != nil {
				return err
			}
			return r.Print(g, func() string {
				var b strings.Builder
				fmt.Fprintf(&b, "# routes, version %d, of %s\n", g.Version, g.Created.Format("2006-01-02 15:04:05 MST"))
				return describe(&b, g.Modules, g.Warnings, g.YAML)
			})
		})
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` (default: the newest)")
	return cmd
}

// describe adds the modules, the warnings and the text of a stored file to b, and returns it all.
func describe(b *strings.Builder, modules []api.Entry, warnings []string, yaml string) string {
	for _, m := range modules {
		fmt.Fprintf(b, "# %s: %s is %s\n", m.At, m.Name, m.Digest)
	}
	for _, w := range warnings {
		fmt.Fprintf(b, "# warning: %s\n", cli.OneLine(w))
	}
	return b.String() + strings.TrimRight(yaml, "\n") + "\n"
}

func routesRemove(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "rm", Short: "Delete the tenant's routes with all their versions"},
		func(ctx context.Context, r *Session, _ []string) error {
			if err := r.DeleteGateway(ctx); err != nil {
				return err
			}
			return r.Done(map[string]string{"did": "deleted"}, "deleted the routes")
		})
}
