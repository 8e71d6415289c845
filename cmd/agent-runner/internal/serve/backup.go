package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/store"
)

// NewStore returns the "store" command.
func NewStore(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "store", Short: "Back up the database of a server"}, storeBackup(e))
}

func storeBackup(e *cli.Env) *cobra.Command {
	at := ""
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a snapshot of an SQLite database to a new file, also while a server uses it",
		Long: `Writes a snapshot of an SQLite database to a new file that only its owner can read. A
server can use the database meanwhile; what it writes after the start of the backup is not in the
file. The file is as large as the data, and complete once it has its name: until then it ends in
.part. Keep the keys of --secrets-key-file elsewhere: the file cannot be used to read secrets
without them.

PostgreSQL databases are backed up with pg_basebackup or pg_dump. docs/operations.md has the
commands, and how to restore both.`,
		Example: "  agent-runner store backup --store platform.db platform-$(date +%F).db",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("want one file: agent-runner store backup --store STORE FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("store") && at == "" {
				return cli.Usagef("--store is empty; want the path of an SQLite database")
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			where := hosting.StorePath(e, cmp.Or(at, e.Getenv(hosting.EnvStore), hosting.DefaultStore))
			path := strings.TrimPrefix(where, "file://")
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !strings.Contains(path, "://") {
				return cli.Usagef("no store at %s; check the path of --store", path)
			}
			switch err := store.Backup(ctx, where, args[0]); {
			case errors.Is(err, store.ErrNoBackup):
				return cli.Usagef("%s: %w; see docs/operations.md", hosting.RedactedLocation(where), err)
			case errors.Is(err, fs.ErrExist):
				return cli.Usagef("%w; choose another name or remove it", err)
			case err != nil && ctx.Err() != nil:
				return cli.Ended(cli.ExitCanceled, errors.New("canceled"))
			case err != nil:
				return cli.Ended(cli.ExitFailed, err)
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return cli.Ended(cli.ExitFailed, err)
			}
			_, err = fmt.Fprintf(e.Out, "%s: %d bytes\n", args[0], info.Size())
			return err
		},
	}
	cmd.Flags().StringVar(&at, "store", "", "back up `STORE`: the path of an SQLite database, or default (default: $"+
		hosting.EnvStore+", else default)")
	return cmd
}
