package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// maxSecret is the maximum length of a secret, in bytes.
const maxSecret = 64 << 10

// NewSecrets returns the "secrets" command.
func NewSecrets(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "secrets", Short: "Set, list and delete a tenant's secrets on a server"},
		secretsSet(e), secretsList(e), secretsRemove(e))
}

func secretsSet(e *cli.Env) *cobra.Command {
	var file string
	cmd := Command(e, &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret",
		Long: `Stores a secret, encrypted. Its value is read from the terminal, from standard input
or from a file, without the trailing newline. Agents use it as api_key_env.`,
		Example: `  agent-runner secrets set OPENAI_API_KEY
  pass show openai | agent-runner secrets set OPENAI_API_KEY`,
	}, func(ctx context.Context, r *Session, args []string) error {
		value, err := readSecret(e, "secret "+args[0], file)
		if err != nil {
			return err
		}
		if err := r.SetSecret(ctx, args[0], value); err != nil {
			return err
		}
		return r.Done(map[string]string{"secret": args[0], "did": "kept"}, "secret %s is set", args[0])
	})
	cmd.Flags().StringVar(&file, "file", "", "read the secret from `FILE`")
	return cmd
}

// readSecret reads a secret from a file, from the terminal without echo, or from
// standard input. name is its name in prompts and errors.
func readSecret(e *cli.Env, name, path string) (string, error) {
	var b []byte
	var err error
	in, isFile := e.In.(*os.File)
	switch {
	case path != "":
		b, err = cli.ReadFile(path, maxSecret)
	case isFile && term.IsTerminal(int(in.Fd())):
		b, err = askSecret(e, in, name+": ")
	default:
		b, err = io.ReadAll(io.LimitReader(e.In, maxSecret+1))
		if len(b) > maxSecret {
			err = fmt.Errorf("longer than %d bytes", maxSecret)
		}
	}
	give := "want it on standard input"
	if path != "" {
		give = "want it in " + path
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if err == nil && value == "" {
		err = errors.New("empty; " + give)
	}
	if err != nil {
		return "", cli.Usagef("read the %s: %w", name, err)
	}
	return value, nil
}

func secretsList(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "list", Short: "List secrets, without their values"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]api.Secret, string, error) { return r.Secrets(ctx, p) })
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"SECRET", "CHANGED"}}
				for _, s := range list {
					rows = append(rows, []string{s.Name, cli.Since(s.Updated)})
				}
				return Table("no secrets", rows)
			})
		},
	)
}

func secretsRemove(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "rm NAME", Short: "Delete a secret"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.DeleteSecret(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"secret": args[0], "did": "deleted"}, "deleted secret %s", args[0])
		},
	)
}
