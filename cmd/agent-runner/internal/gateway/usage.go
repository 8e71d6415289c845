package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
)

// newUsage returns the "gateway usage" command.
func newUsage(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "usage FILE",
		Short: "Show what the keys of a gateway have used",
		Long: `Shows what each key of FILE, a gateway.yaml, has used in its current period, from the usage_file
that FILE names. A running gateway writes it within a second of a request.`,
		Example: "  agent-runner gateway usage gateway.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want the path of one gateway.yaml, such as: agent-runner gateway usage gateway.yaml")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := gateway.LoadFile(args[0])
			if err != nil {
				return err
			}
			return showUsage(e, f)
		},
	}
}

// showUsage prints a table of the usage and the limits of the keys of a file.
func showUsage(e *cli.Env, f *gateway.File) error {
	if f.UsageFile == "" {
		return cli.Usagef("the gateway has no usage_file, and so stores no usage")
	}
	list, err := budget.Read(string(f.UsageFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	used := map[string]budget.Use{}
	for _, u := range list {
		if u.Start.Equal(u.Per.Start(time.Now())) {
			used[u.Key] = u
		}
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tPERIOD\tREQUESTS\tTOKENS\tOF\tCOST\tOF")
	for i := range f.Keys {
		k := &f.Keys[i]
		u, ok := used[k.Name]
		if !ok {
			u.Per = budget.Period(k.Budget.Per)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%.4f\t%s\n", cli.Clean(k.Name), u.Per.Name(), u.Requests, u.Tokens,
			limit(float64(k.Budget.Tokens), "%.0f"), u.Cost, limit(k.Budget.Cost, "%.4f"))
	}
	return w.Flush()
}

// limit returns a limit as text, or "-" if there is none.
func limit(n float64, format string) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf(format, n)
}
