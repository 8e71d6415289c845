package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewLogin returns the "login" command.
func NewLogin(e *cli.Env) *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Log in to a server with a key",
		Long: `Logs in to a server: checks the key, and stores it in the user's configuration,
readable by this user only. Commands use the server of the last login unless --server
or $` + EnvServer + ` names another one.

The key is read from the terminal, from standard input or from a file. Keys come from
agent-runner serve and agent-runner keys create. With $` + EnvKey + ` set, commands need
no login. If it is set but empty, they fail.`,
		Example: `  agent-runner login http://127.0.0.1:8080
  agent-runner login https://agents.example.com --key-file key.txt
  pass show agents | agent-runner login https://agents.example.com`,
		Args: acceptedBy,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := addressOf(args[0])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			key, err := readKey(e, keyFile)
			if err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			return Explain(ctx, e, at, saveLogin(ctx, e, at, key))
		},
	}
	cmd.SetUsageTemplate(remoteUsage)
	cmd.Flags().StringVar(&keyFile, "key-file", "", "read the key from `FILE`")
	return cmd
}

// saveLogin checks a key against the server, stores it, and makes the server the current one.
func saveLogin(ctx context.Context, e *cli.Env, at, key string) error {
	l, err := ReadLogins(e)
	if err != nil {
		return err
	}
	c, err := newClient(e, at, key)
	if err != nil {
		return err
	}
	who, err := ownKey(ctx, c, key)
	if err != nil {
		return err
	}
	before := l.Servers[at]
	l.Current = at
	l.Servers[at] = login{key}
	if err := l.save(); err != nil {
		return err
	}
	if id, err := keyID(before.Key); err == nil && before.Key != key {
		cli.NewScreen(e).Note(cli.Plain, "agent-runner: it replaces key %s, which remains valid", id)
	}
	if plainHTTP(at) {
		cli.NewScreen(e).
			Note(cli.Amber, "agent-runner: the connection to %s is not encrypted: others on the network can read the key", at)
	}
	_, err = fmt.Fprintf(e.Out, "logged in to %s with %s\n", at, cli.Clean(who.String()))
	return err
}

// plainHTTP reports whether requests to the address leave this machine unencrypted.
func plainHTTP(at string) bool {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}

// A holder describes a key and its owner.
type holder struct {
	Server string   `json:"server"`
	ID     string   `json:"id"`
	Key    *api.Key `json:"key,omitempty"` // nil if the key lacks the scope keys:read
}

func (h *holder) String() string {
	if h.Key == nil {
		return "key " + h.ID + " (no details: it lacks the scope keys:read)"
	}
	return fmt.Sprintf("key %s (%s) of %s", h.ID, h.Key.Name, tenantName(h.Key.Tenant))
}

// tenantName returns the name of a tenant in messages. "" is the operator.
func tenantName(tenant string) string {
	if tenant == "" {
		return "the operator"
	}
	return "tenant " + tenant
}

// ownKey returns the server's description of the key that the client uses.
func ownKey(ctx context.Context, c *client.Client, key string) (*holder, error) {
	part := wholeKeys.FindStringSubmatch(key)
	if part == nil {
		return nil, cli.Usagef("not a server key: want one such as ar_…_…")
	}
	h := &holder{Server: c.Server(), ID: part[1]}
	list, err := client.Collect(0, func(p client.Page) ([]*api.Key, string, error) { return c.Keys(ctx, "", p) })
	var p *api.Problem
	switch {
	case errors.As(err, &p) && p.Code() == api.CodeForbidden:
		return h, nil // the key is valid, but cannot read keys
	case err != nil:
		return nil, err
	}
	if at := slices.IndexFunc(list, func(k *api.Key) bool { return k.ID == h.ID }); at >= 0 {
		h.Key = list[at]
	}
	return h, nil
}

// readKey reads a key as [readSecret] does, without surrounding white space.
func readKey(e *cli.Env, path string) (string, error) {
	text, err := readSecret(e, "key", path)
	return strings.TrimSpace(text), err
}

// askSecret reads a secret from the terminal without echo. A signal restores the
// terminal and exits the process.
func askSecret(e *cli.Env, in *os.File, prompt string) ([]byte, error) {
	fd := int(in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer close(done)
	go func() {
		select {
		case <-signals:
			_ = term.Restore(fd, state)
			fmt.Fprintln(e.Err)
			os.Exit(cli.ExitCanceled)
		case <-done:
		}
	}()
	fmt.Fprint(e.Err, prompt)
	b, err := term.ReadPassword(fd)
	fmt.Fprintln(e.Err)
	return b, err
}

// NewLogout returns the "logout" command.
func NewLogout(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout [URL]",
		Short: "Delete the stored key of a server",
		Long: `Deletes the stored key of a server (default: the current one). The key itself
remains valid; to invalidate it, use agent-runner keys revoke.`,
		Args: acceptedBy,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := ReadLogins(e)
			if err != nil {
				return err
			}
			at := l.Current
			if len(args) > 0 {
				if at, err = addressOf(args[0]); err != nil {
					return cli.Usagef("%w", err)
				}
			}
			if _, ok := l.Servers[at]; !ok && at == "" {
				return cli.Usagef("not logged in to any server%s",
					cli.After("; name one of ", strings.Join(slices.Sorted(maps.Keys(l.Servers)), ", ")))
			} else if !ok {
				return cli.Usagef("not logged in to %s", at)
			}
			delete(l.Servers, at)
			if l.Current == at {
				l.Current = ""
			}
			if err := l.save(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.Out, "logged out of %s\n", at)
			return err
		},
	}
	cmd.SetUsageTemplate(remoteUsage)
	return cmd
}

// NewWhoami returns the "whoami" command.
func NewWhoami(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "whoami", Short: "Show the server and key in use"},
		func(ctx context.Context, r *Session, _ []string) error {
			h, err := ownKey(ctx, r.Client, r.Key())
			if err != nil {
				return err
			}
			return r.Print(h, func() string {
				text := h.String() + " at " + h.Server + "\n"
				if h.Key != nil {
					text += "scopes: " + strings.Join(h.Key.Scopes, ", ") + "\n"
					if h.Key.Expires != nil {
						text += "expires: " + h.Key.Expires.String() + "\n"
					}
				}
				return text
			})
		})
}
