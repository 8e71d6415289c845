// Command gateway compares requests through the gateway with requests that go directly to the same
// upstream. It writes docs/gateway-figures.md.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
)

// usual is the size of the first request of a coding agent, in bytes. Most measurements use it.
const usual = 50 << 10

// sizes holds the sizes of requests in the first table, in bytes.
var sizes = []int{2 << 10, usual, 256 << 10}

// A bench measures peers.
type bench struct {
	rounds   int           // the number of measurements of each peer; the measurements of the peers alternate
	duration time.Duration // of one measurement
	root     string        // the folder of the repository
	built    string        // the folder of the modules
	reuse    bool          // use the modules that an earlier run built
	history  *history
	peers    []peer
	missing  string // lines about peers that are omitted
}

// A peer is a way to reach the upstream.
type peer struct {
	name string
	url  string
}

func main() {
	c := &bench{}
	flag.IntVar(&c.rounds, "rounds", 5, "the number of measurements of each row")
	flag.DurationVar(&c.duration, "duration", 1500*time.Millisecond, "the time of one measurement")
	flag.BoolVar(&c.reuse, "reuse", false, "use the modules that an earlier run built")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: gateway [flags] FOLDER-OF-MODULES OUTPUT.md") }
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	c.built = flag.Arg(0)
	if err := c.run(context.Background(), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func (c *bench) run(ctx context.Context, output string) (err error) {
	if c.root, err = filepath.Abs(".."); err != nil {
		return err
	}
	if c.history, err = newHistory(c.root); err != nil {
		return err
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(c.head())
	if err := c.bySize(&b); err != nil {
		return err
	}
	for _, stream := range []bool{false, true} {
		if err := c.byClients(&b, stream); err != nil {
			return err
		}
	}
	if err := c.memory(&b); err != nil {
		return err
	}
	b.WriteString(published)
	return os.WriteFile(output, b.Bytes(), 0o644)
}

// start starts the upstream and the gateways.
func (c *bench) start(ctx context.Context) error {
	up, err := serve(http.HandlerFunc(upstream))
	if err != nil {
		return err
	}
	// A request reserves the memory that its modules may use. This benchmark does not measure that
	// limit.
	h, err := host.New(ctx, &host.Options{MemoryBytes: 1 << 50})
	if err != nil {
		return err
	}
	at, err := startGateway(ctx, h, up, "")
	if err != nil {
		return err
	}
	c.peers = []peer{{"no gateway", up}, {"gateway, no modules", at}}
	for _, b := range builds {
		modules, err := c.modules(ctx, &b)
		if isMissing(err) {
			c.missing += fmt.Sprintf("There are no rows of %s, whose compiler the machine did not have.\n", b.name)
			continue
		}
		if err != nil {
			return err
		}
		if at, err = startGateway(ctx, h, up, modules); err != nil {
			return err
		}
		c.peers = append(c.peers, peer{fmt.Sprintf("gateway, three %s modules", b.name), at})
	}
	return nil
}

// serve serves a handler on a free port, and returns its address.
func serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(l, h) }()
	return "http://" + l.Addr().String(), nil
}

// startGateway starts a gateway with the given entries of modules, and returns its address.
func startGateway(ctx context.Context, h *host.Host, up, modules string) (string, error) {
	dir, err := os.MkdirTemp("", "bench-gateway")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "gateway.yaml")
	const route = "max_requests: 1000\nroutes: [{protocol: chat, upstream: %q, middlewares: [%s]}]"
	if err := os.WriteFile(path, fmt.Appendf(nil, route, up, modules), 0o600); err != nil {
		return "", err
	}
	f, err := gateway.LoadFile(path)
	if err != nil {
		return "", err
	}
	g, err := gateway.New(ctx, h, f, nil)
	if err != nil {
		return "", err
	}
	return serve(g)
}
