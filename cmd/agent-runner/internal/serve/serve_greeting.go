package serve

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// A greeting is the text that a server prints when it starts.
type greeting struct {
	env        *cli.Env
	url, store string
	secrets    bool   // tenants can store secrets
	model      string // the offline model, if the server answers with it
	replay     string
}

// print prints the address, the store, the model, and what the operator must configure to store
// secrets. On the first start, or if newKey is set, it also prints a new operator's key and the next
// commands.
func (g *greeting) print(ctx context.Context, srv *server.Server, s store.Store, newKey bool) error {
	key, err := srv.OperatorKey(ctx, newKey)
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
	case g.model != "":
		fmt.Fprintf(g.env.Err, "model: the offline model %s\n", g.model)
	case g.replay != "":
		fmt.Fprintf(g.env.Err, "model: the recording %s\n", g.replay)
	default:
		shared = g.endpoints()
	}
	if !g.secrets {
		fmt.Fprintf(g.env.Err, "secrets: tenants cannot store any without --secrets-key-file\n")
	}
	if len(lost) > 0 {
		fmt.Fprintf(
			g.env.Err,
			"secrets: some are encrypted with key %s, which --secrets-key-file no longer has; agents that need them cannot run until the line is restored or their tenants set them again\n",
			strings.Join(lost, ", "),
		)
	}
	if key == "" {
		return nil
	}
	// The key goes to standard output for programs; the text about it to standard error.
	if cli.IsTerminal(g.env.Out) {
		fmt.Fprintf(g.env.Err, "\nThis is the operator's key. It is shown only once; store it safely:\n\n")
	} else {
		fmt.Fprintf(g.env.Err, "\nThe operator's key is on standard output. It is shown only once; store it safely.\n")
	}
	if _, err := fmt.Fprintln(g.env.Out, key); err != nil {
		return fmt.Errorf("print the operator's key: %w; create another one with: agent-runner serve --new-operator-key", err)
	}
	models := ""
	if shared {
		models = " --allow-model '*'"
	}
	fmt.Fprintf(g.env.Err, `
Next, in another terminal:

  agent-runner login %[1]s
  agent-runner tenants create acme%[2]s
  agent-runner keys create first --tenant acme

Or open %[1]s/ in a browser.

`, g.url, models)
	return nil
}

// reachable returns an address at which commands on this machine reach the listener.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}

// endpoints shows the operator's model endpoints. It reports whether there are any.
func (g *greeting) endpoints() bool {
	shown := false
	for _, e := range []struct {
		provider agentfile.Provider
		vendor   string
	}{{agentfile.ProviderOpenAI, "OpenAI's"}, {agentfile.ProviderMessages, "Anthropic's"}} {
		key, base := e.provider.Env()
		switch {
		case g.env.Getenv(base) != "":
			fmt.Fprintf(g.env.Err, "model: %s\n", hosting.RedactedLocation(g.env.Getenv(base)))
		case g.env.Getenv(key) != "":
			fmt.Fprintf(g.env.Err, "model: %s\n", e.vendor)
		default:
			continue
		}
		shown = true
	}
	if !shown {
		fmt.Fprintf(
			g.env.Err,
			"model: none, because $%s and $%s are not set; tenants set their own keys (to try it without a key: --model %s)\n",
			agentfile.EnvAPIKey, agentfile.EnvAnthropicAPIKey, agentfile.Echo,
		)
	}
	return shown
}
