package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/host/client"
)

// Environment variables of commands that use a server.
const (
	envServer = "AGENT_RUNNER_SERVER"
	envKey    = "AGENT_RUNNER_KEY"
)

const serverHelp = "the `URL` of the server (default: $" + envServer + ", else the server of the last login)"

// A remote is the state of a command that uses a server.
type remote struct {
	*client.Client
	env            *env
	server, output string
}

// group adds subcommands to cmd, which by itself prints its help.
func group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}

// remoteCommand completes a command that uses a server. Its arguments follow from Use:
// words in capitals, optional in brackets. An … allows more than one.
func remoteCommand(e *env, cmd *cobra.Command, run func(ctx context.Context, r *remote, args []string) error) *cobra.Command {
	r := &remote{env: e}
	cmd.Args = wants
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.output != "text" && r.output != "json" {
			return usagef("-o is %q; want text or json", r.output)
		}
		ctx, stop := interruptible(cmd.Context(), func() {})
		defer stop()
		var err error
		if r.Client, err = connect(e, r.server); err != nil {
			return err
		}
		return explain(ctx, e, r.Server(), run(ctx, r, args))
	}
	cmd.SetUsageTemplate(remoteUsage)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&r.output, "output", "o", "text", "`text` or json")
	cmd.Flags().StringVar(&r.server, "server", "", serverHelp)
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

// wants checks the number of arguments against Use.
func wants(cmd *cobra.Command, args []string) error {
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
	got := count(int64(len(args)), "argument")
	return usagef("%s takes %s, but got %s; see %s --help", cmd.CommandPath(), strings.Join(append(strings.Fields(cmd.Use)[1:], noArguments(maxArgs)...), " "), got, cmd.CommandPath())
}

func noArguments(maxArgs int) []string {
	if maxArgs == 0 {
		return []string{"no arguments"}
	}
	return nil
}

// connect returns a client for the selected server, with its key. server is the value
// of --server.
func connect(e *env, server string) (*client.Client, error) {
	kept, err := readLogins(e)
	if err != nil {
		return nil, err
	}
	at := cmp.Or(server, e.getenv(envServer), kept.Current)
	if at == "" {
		return nil, usagef("no server: log in with agent-runner login URL, or use --server URL with the key in $%s", envKey)
	}
	if at, err = client.Address(at); err != nil {
		return nil, usagef("%w", err)
	}
	key := cmp.Or(strings.TrimSpace(e.getenv(envKey)), kept.Servers[at].Key)
	if key == "" {
		return nil, usagef("no key for %[1]s; log in with: agent-runner login %[1]s", at)
	}
	return newClient(e, at, key)
}

func newClient(e *env, at, key string) (*client.Client, error) {
	c, err := client.New(at, key, &client.Options{UserAgent: "agent-runner/" + version()})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return c, nil
}

// explain converts an error of the client into the error that the user sees. It adds the
// exit code and what to do.
func explain(ctx context.Context, e *env, server string, err error) error {
	var ended *endedError
	var p *client.Problem
	var gone *client.UnreachableError
	switch {
	case err == nil, errors.As(err, &ended):
		return err
	case ctx.Err() != nil:
		return &endedError{exitCanceled, errors.New("canceled")}
	case errors.As(err, &p) && p.Code() == client.Invalid && len(p.Errors) == 1 && misplaced[p.Errors[0].Location] != "":
		return &endedError{exitFailed, errors.New(misplaced[p.Errors[0].Location])}
	case errors.As(err, &p):
		return &endedError{exitFailed, fmt.Errorf("%w%s", err, remedy(e, p, server, time.Now()))}
	case errors.As(err, &gone):
		return &endedError{exitFailed, fmt.Errorf("%w; is it running, and is the address right?", err)}
	}
	return err
}

// remedy returns what to do about a problem, as a suffix, unless the server's message
// says it.
func remedy(e *env, p *client.Problem, server string, now time.Time) string {
	again := ""
	if p.RetryAfter > 0 {
		at := now.Add(p.RetryAfter).Format(time.TimeOnly)
		again = fmt.Sprintf("; try again in %v, at %s", p.RetryAfter, at)
		if strings.HasSuffix(p.Detail, fmt.Sprintf("try again in %v", p.RetryAfter)) {
			again = ", at " + at // the detail has the rest
		}
	}
	switch p.Code() {
	case client.Unauthorized:
		if e.getenv(envKey) != "" {
			return "; set another key in $" + envKey
		}
		return "; log in with another key: agent-runner login " + server
	case client.NotFound:
		return elsewhere(p.Detail)
	case client.Forbidden:
		if strings.HasSuffix(p.Detail, " needs "+scopeOperator) {
			return "; log in with the operator's key: agent-runner login " + server
		}
		if p.Errors == nil && strings.HasPrefix(p.Detail, "scope ") {
			return "" // the scope in the request is wrong, not the key
		}
		return "; create a key with other scopes: agent-runner keys create"
	case client.Internal:
		return after("; request id: ", p.Request())
	}
	return again
}

// names describes the valid names of agents and tenants.
const names = "; want up to 63 lowercase letters, digits, dots, dashes and underscores"

// misplaced maps invalid parts of requests to errors about the command line.
var misplaced = map[string]string{
	"path.run":    "not a run id; want one such as run_abc…, as listed by agent-runner runs list",
	"path.digest": "not a module digest; want sha256: and 64 hexadecimal digits, as listed by agent-runner modules list -o json",
	"path.agent":  "not an agent name" + names + ", as listed by agent-runner agents list",
	"path.tenant": "not a tenant id" + names + ", as listed by agent-runner tenants list",
	"body.id":     "not a tenant id" + names,
	"path.secret": "not a secret name; want up to 63 letters, digits, dots, dashes and underscores, such as OPENAI_API_KEY",
	"path.module": "not a module; want a digest, a name, or name@version, as listed by agent-runner modules list",
	"query.from":  "--from is not a day; want one such as 2026-01-31",
	"query.to":    "--to is not a day; want one such as 2026-01-31",
}

// scopeOperator is the scope that only the operator's keys have.
const scopeOperator = "operator"

// elsewhere names the command that lists the existing items, for a problem about a
// missing one.
func elsewhere(detail string) string {
	switch noun, _, _ := strings.Cut(detail, " "); noun {
	case "agent", "module", "run", "tenant", "key", "secret":
		return fmt.Sprintf("; list them with: agent-runner %ss list", noun)
	}
	return ""
}

// print writes v as JSON or the result of text, depending on --output.
func (r *remote) print(v any, text func() string) error {
	if r.output == "json" {
		return printJSON(r.env, v)
	}
	_, err := fmt.Fprint(r.env.out, clean(text()))
	return err
}

// done prints what was done: result in JSON, or the formatted message.
func (r *remote) done(result any, format string, args ...any) error {
	return r.print(result, func() string { return fmt.Sprintf(format, args...) + "\n" })
}

// note writes a note to standard error.
func (r *remote) note(look style, format string, args ...any) {
	newScreen(r.env).note(look, format, args...)
}

// table formats rows in columns. The first row has the headings. If there are no other
// rows, table returns none.
func table(none string, rows [][]string) string {
	if len(rows) < 2 {
		return none + "\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
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

// A listLimit holds the flags --limit and --all of a list command.
type listLimit struct {
	rows  int
	all   bool
	flags *pflag.FlagSet
}

// add adds the flags to a command.
func (l *listLimit) add(cmd *cobra.Command, rows int) {
	l.flags = cmd.Flags()
	l.flags.IntVar(&l.rows, "limit", rows, "list at most `N` rows")
	l.flags.BoolVar(&l.all, "all", false, "list all rows")
}

// max returns the maximum number of rows, or 0 for all.
func (l *listLimit) max() (int, error) {
	switch {
	case l.all && l.flags.Changed("limit"):
		return 0, usagef("--limit and --all are mutually exclusive")
	case l.all:
		return 0, nil
	case l.rows < 1:
		return 0, usagef("--limit is %d; want at least 1, or --all", l.rows)
	}
	return l.rows, nil
}
