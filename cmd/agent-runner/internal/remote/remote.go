// Package remote implements the commands that are clients of a server.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// Environment variables of commands that use a server.
const (
	EnvServer = "AGENT_RUNNER_SERVER"
	EnvKey    = "AGENT_RUNNER_KEY"
)

const serverHelp = "the `URL` of the server (default: $" + EnvServer + ", else the server of the last login)"

// A Session is the state of a command that uses a server.
type Session struct {
	*client.Client
	Env             *cli.Env
	Address, Output string // the flags --server and --output
}

// Command adds to cmd the flags --output and --server, a check of the arguments, and a RunE that
// connects to the server and calls run. Each word after the command's name in Use is an argument.
// It is optional if it is in brackets, and may be repeated if it contains an ellipsis (…).
func Command(
	e *cli.Env,
	cmd *cobra.Command,
	run func(ctx context.Context, r *Session, args []string) error,
) *cobra.Command {
	r := &Session{Env: e}
	cmd.Args = acceptedBy
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.Output != "text" && r.Output != "json" {
			return cli.Usagef("-o is %q; want text or json", r.Output)
		}
		ctx, stop := cli.Interruptible(cmd.Context(), func() {})
		defer stop()
		var err error
		if r.Client, err = Connect(e, r.Address); err != nil {
			return err
		}
		return Explain(ctx, e, r.Server(), run(ctx, r, args))
	}
	cmd.SetUsageTemplate(remoteUsage)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&r.Output, "output", "o", "text", "`text` or json")
	cmd.Flags().StringVar(&r.Address, "server", "", serverHelp)
	return cmd
}

// remoteUsage is a usage template without the global flags, which only affect modules
// run on this machine.
const remoteUsage = `Usage:
  {{.UseLine}}
{{- if .HasExample}}

Examples:
{{.Example}}
{{- end}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
`

// acceptedBy checks the number of arguments against Use.
func acceptedBy(cmd *cobra.Command, args []string) error {
	minArgs, maxArgs := 0, 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		switch {
		case strings.HasPrefix(word, "["):
			maxArgs++
		default:
			minArgs++
			maxArgs++
		}
		if strings.Contains(word, "…") {
			maxArgs = 1 << 20
		}
	}
	if len(args) >= minArgs && len(args) <= maxArgs {
		return nil
	}
	got := cli.Count(int64(len(args)), "argument")
	return cli.Usagef("%s takes %s, but got %s; see %s --help", cmd.CommandPath(),
		strings.Join(append(strings.Fields(cmd.Use)[1:], noArguments(maxArgs)...), " "), got, cmd.CommandPath())
}

func noArguments(maxArgs int) []string {
	if maxArgs == 0 {
		return []string{"no arguments"}
	}
	return nil
}

// Connect returns a client for the selected server, with its key. server is the value
// of --server.
func Connect(e *cli.Env, server string) (*client.Client, error) {
	stored, err := ReadLogins(e)
	if err != nil {
		return nil, err
	}
	at := cmp.Or(server, e.Getenv(EnvServer), stored.Current)
	if at == "" {
		return nil, cli.Usagef("no server: log in with agent-runner login URL, or use --server URL with the key in $%s",
			EnvKey)
	}
	if at, err = addressOf(at); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	key, err := keyFor(e, at, stored)
	if err != nil {
		return nil, err
	}
	return newClient(e, at, key)
}

// keyFor returns the key in the environment, or else that of the last login at a server. It rejects an empty key
// in the environment, because the command would otherwise act with another key than its user meant.
func keyFor(e *cli.Env, server string, stored *logins) (string, error) {
	key, set := e.Getenv(EnvKey), false
	if e.LookupEnv != nil {
		key, set = e.LookupEnv(EnvKey)
	}
	key = strings.TrimSpace(key)
	switch {
	case key != "":
		return key, nil
	case set:
		return "", cli.Usagef("$%s is empty; set it to a key, or unset it to use the key of the last login", EnvKey)
	case stored.Servers[server].Key == "":
		return "", cli.Usagef("no key for %[1]s; log in with: agent-runner login %[1]s", server)
	}
	return stored.Servers[server].Key, nil
}

func newClient(e *cli.Env, at, key string) (*client.Client, error) {
	c, err := client.New(at, key, &client.Options{UserAgent: "agent-runner/" + cli.Version()})
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return c, nil
}

// addressOf returns the address of a server in its normal form, under which its login is stored.
func addressOf(server string) (string, error) {
	c, err := client.New(server, "", nil)
	if err != nil {
		return "", err
	}
	return c.Server(), nil
}

// Explain converts an error of the client into an error for the user, with an exit code and advice.
func Explain(ctx context.Context, e *cli.Env, server string, err error) error {
	var ended *cli.EndedError
	var p *api.Problem
	var gone *client.UnreachableError
	switch {
	case err == nil, errors.As(err, &ended):
		return err
	case ctx.Err() != nil:
		return cli.Ended(cli.ExitCanceled, errors.New("canceled"))
	case errors.As(err, &p) && p.Code() == api.CodeInvalid && len(p.Errors) == 1 && misplaced[p.Errors[0].Location] != "":
		return cli.Usagef("%s", misplaced[p.Errors[0].Location])
	case errors.As(err, &p) && p.Code() == api.CodeInvalid:
		return cli.Usagef("%w%s", err, remedy(e, p, server, time.Now()))
	case errors.As(err, &p):
		return cli.Ended(cli.ExitFailed, fmt.Errorf("%w%s", err, remedy(e, p, server, time.Now())))
	case errors.As(err, &gone):
		return cli.Ended(cli.ExitFailed, fmt.Errorf("%w; is it running, and is the address right?", err))
	}
	return err
}

// remedy returns the end of an error message, which tells the user what to do about a problem. It
// returns "" if there is nothing to add to the server's message.
func remedy(e *cli.Env, p *api.Problem, server string, now time.Time) string {
	again := ""
	if p.RetryAfter > 0 {
		at := now.Add(p.RetryAfter).Format(time.TimeOnly)
		again = fmt.Sprintf("; try again in %v, at %s", p.RetryAfter, at)
		if strings.HasSuffix(p.Detail, fmt.Sprintf("try again in %v", p.RetryAfter)) {
			again = ", at " + at // the detail names the reason
		}
	}
	switch p.Code() {
	case api.CodeUnauthorized:
		if e.Getenv(EnvKey) != "" {
			return "; set another key in $" + EnvKey
		}
		return "; log in with another key: agent-runner login " + server
	case api.CodeNotFound:
		return elsewhere(p.Detail)
	case api.CodeForbidden:
		if strings.HasSuffix(p.Detail, " needs "+scopeOperator) ||
			strings.HasSuffix(p.Detail, " needs "+scopeOperator+":read") {
			return "; log in with the operator's key: agent-runner login " + server
		}
		if p.Errors == nil && strings.HasPrefix(p.Detail, "scope ") {
			return "" // the scope in the request is wrong, not the key
		}
		return "; create a key with other scopes: agent-runner keys create"
	case api.CodeInternal:
		return cli.After("; request id: ", p.Request())
	}
	return again
}

// names describes the valid names of agents and tenants.
const names = "; want up to 63 lowercase letters, digits, dots, dashes and underscores"

// misplaced maps invalid parts of requests to errors about the command line.
var misplaced = map[string]string{
	"path.run":    "not a run id; want one such as run_abc…, as listed by agent-runner runs list",
	"path.thread": "not a thread id; want one such as thr_abc…, as listed by agent-runner threads list",
	"path.digest": "not a module digest; want sha256: and 64 hexadecimal digits, as listed by agent-runner modules list -o json",
	"path.agent":  "not an agent name" + names + ", as listed by agent-runner agents list",
	"path.tenant": "not a tenant id" + names + ", as listed by agent-runner tenants list",
	"body.id":     "not a tenant id" + names,
	"path.secret": "not a secret name; want up to 63 letters, digits, dots, dashes and underscores, such as OPENAI_API_KEY",
	"path.module": "not a module; want a digest, a name, or name@version, as listed by agent-runner modules list",
	"query.from":  "--from is not a day; want one such as 2026-01-31",
	"query.to":    "--to is not a day; want one such as 2026-01-31",

	"body.expires_in_seconds": "--expires is not valid; want a time such as 15m, at least 1s and at most 24h",
}

// scopeOperator is the scope that only the operator's keys have.
const scopeOperator = "operator"

// elsewhere names the command that lists the existing items, for a problem about a
// missing one.
func elsewhere(detail string) string {
	noun, rest, _ := strings.Cut(detail, " ")
	name, missing, _ := strings.Cut(rest, ": ")
	switch {
	case strings.HasPrefix(missing, "no such version"):
		return "" // the detail names the newest one
	case strings.HasPrefix(missing, "alias stable: "):
		return "; set it with: agent-runner agents alias set " + name + " stable VERSION"
	case strings.HasPrefix(missing, "alias "):
		return "; list them with: agent-runner agents alias list " + name
	}
	switch noun {
	case "agent", "module", "run", "tenant", "thread", "key", "secret":
		return fmt.Sprintf("; list them with: agent-runner %ss list", noun)
	}
	return ""
}

// Print writes v as JSON or the result of text, depending on --output.
func (r *Session) Print(v any, text func() string) error {
	if r.Output == "json" {
		return cli.PrintJSON(r.Env, v)
	}
	_, err := fmt.Fprint(r.Env.Out, cli.Clean(text()))
	return err
}

// Done prints the result of a change: result in JSON, or the formatted message.
func (r *Session) Done(result any, format string, args ...any) error {
	return r.Print(result, func() string { return fmt.Sprintf(format, args...) + "\n" })
}

// Note writes a note to standard error.
func (r *Session) Note(look cli.Style, format string, args ...any) {
	cli.NewScreen(r.Env).Note(look, format, args...)
}

// Table formats rows in columns. The first row has the headings. If there are no other rows, Table
// returns the value of none and a newline.
func Table(none string, rows [][]string) string {
	if len(rows) < 2 {
		return none + "\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = cli.OneLine(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// shortDigest shortens a digest for text output.
func shortDigest(d string) string {
	if bare, ok := strings.CutPrefix(d, "sha256:"); ok && len(bare) > 12 {
		return "sha256:" + bare[:12]
	}
	return d
}

// A ListLimit holds the flags --limit and --all of a list command.
type ListLimit struct {
	rows  int
	all   bool
	flags *pflag.FlagSet
}

// Add adds the flags to a command. rows is the default of --limit.
func (l *ListLimit) Add(cmd *cobra.Command, rows int) {
	l.flags = cmd.Flags()
	l.flags.IntVar(&l.rows, "limit", rows, "list at most `N` rows")
	l.flags.BoolVar(&l.all, "all", false, "list all rows")
}

// Max returns the maximum number of rows, or 0 for all.
func (l *ListLimit) Max() (int, error) {
	switch {
	case l.all && l.flags.Changed("limit"):
		return 0, cli.Usagef("--limit and --all are mutually exclusive")
	case l.all:
		return 0, nil
	case l.rows < 1:
		return 0, cli.Usagef("--limit is %d; want at least 1, or --all", l.rows)
	}
	return l.rows, nil
}
