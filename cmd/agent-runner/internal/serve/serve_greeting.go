package serve

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A greeting is what a server says when it begins.
type greeting struct {
	env        *cli.Env
	url, store string
	secrets    bool // can be kept
	replay     string
}

// say says where the server is, what it lacks, and, once, how to go on.
func (g *greeting) say(ctx context.Context, s store.Store, newKey bool) error {
	key, err := operatorKey(ctx, s, newKey)
	if err != nil {
		return err
	}
	lost, err := s.MissingKeys(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.env.Err, "serving at %s, with the store %s\n", g.url, g.store)
	shared := true
	switch {
	case g.replay == hosting.Demo:
		fmt.Fprintf(g.env.Err, "model: the built-in recording, which knows one question: %s\n", hosting.DemoPrompt)
	case g.replay != "":
		fmt.Fprintf(g.env.Err, "model: the recording %s\n", g.replay)
	case g.env.Getenv(host.EnvBaseURL) != "":
		fmt.Fprintf(g.env.Err, "model: %s\n", hosting.Place(g.env.Getenv(host.EnvBaseURL)))
	case g.env.Getenv(host.EnvAPIKey) != "":
		fmt.Fprintf(g.env.Err, "model: OpenAI's\n")
	default:
		shared = false
		fmt.Fprintf(g.env.Err, "model: none for all, since $%s is not set; tenants bring their own (to try it without one: --replay %s)\n", host.EnvAPIKey, hosting.Demo)
	}
	if !g.secrets {
		fmt.Fprintf(g.env.Err, "secrets: cannot be kept without --secrets-key-file\n")
	}
	if len(lost) > 0 {
		fmt.Fprintf(g.env.Err, "secrets: some were sealed by a key %s that is not in --secrets-key-file as it was then; agents that need them cannot run until its line is back, or their tenants set them again\n", strings.Join(lost, ", "))
	}
	if key == "" {
		return nil
	}
	// The key goes to where programs read it; what is said about it does not.
	if cli.IsTerminal(g.env.Out) {
		fmt.Fprintf(g.env.Err, "\nThis is the operator's key. It is shown this once; keep it safe:\n\n")
	} else {
		fmt.Fprintf(g.env.Err, "\nThe operator's key goes to standard output, this once; keep it safe.\n")
	}
	if _, err := fmt.Fprintln(g.env.Out, key); err != nil {
		return fmt.Errorf("the operator's key cannot be shown: %w; make another one with: agent-runner serve --new-operator-key", err)
	}
	models := ""
	if shared {
		models = " --allow-model '*'"
	}
	fmt.Fprintf(g.env.Err, `
To go on, in another terminal:

  agent-runner login %[1]s
  agent-runner tenants create acme%[2]s
  agent-runner keys create first --tenant acme

Or with a browser: %[1]s/

`, g.url, models)
	return nil
}

// operatorKey makes the first key of the operator, or another one where it is asked
// for; empty if there is one already.
func operatorKey(ctx context.Context, s store.Store, another bool) (string, error) {
	operator := s.Tenant(store.Operator)
	o := &store.KeyOptions{Name: "operator", Scopes: httpapi.OperatorScopes()}
	if another {
		_, shown, err := operator.CreateKey(ctx, o)
		return shown, err
	}
	return operator.CreateFirstKey(ctx, o)
}

// reachable is an address that a command on this machine can use.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}
