package natsbus

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout limits the wait for the embedded server.
const startTimeout = 10 * time.Second

// A Cluster configures the embedded NATS server. Its only client is this process, which knows its
// random password; the servers of the cluster connect to each other.
type Cluster struct {
	// Listen is the address for the other servers, such as 10.0.0.5:6222. Port 0 selects a free one.
	Listen string
	// Join has addresses of other servers of the cluster. One that is up suffices: it names the rest.
	Join []string
	// Password authenticates the servers of the cluster. All have the same one, of at least 16 bytes.
	// It is required unless Listen is a loopback address.
	Password string
	// TLS configures connections between the servers. It needs a certificate for both directions, and
	// the authorities of the others' certificates. By default, connections are not encrypted.
	TLS *tls.Config
	// Name is the name of this server in the cluster. The default is random.
	Name string
}

// check returns the host and the port of Listen. It fails if other machines can reach Listen and
// Password has fewer than 16 bytes, or if Listen is invalid.
func (c *Cluster) check() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("cluster address %q: want HOST:PORT", c.Listen)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("cluster address %q: want a port from 0 to 65535", c.Listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	ip := net.ParseIP(host)
	local := ip != nil && ip.IsLoopback() || host == "localhost"
	if !local && len(c.Password) < 16 {
		return "", 0, errors.New(
			"the cluster needs a password of at least 16 bytes: its servers can be reached by other machines",
		)
	}
	return host, port, nil
}

// routes returns the URLs of the other servers.
func (c *Cluster) routes() (out []*url.URL, err error) {
	for _, address := range c.Join {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("join %q: want HOST:PORT", address)
		}
		u := &url.URL{Scheme: "nats-route", Host: address}
		if c.Password != "" {
			u.User = url.UserPassword("agent-runner", c.Password)
		}
		out = append(out, u)
	}
	return out, nil
}

// startServer starts a NATS server that serves this process and a cluster. It also returns the
// options with which this process connects to it.
func startServer(c *Cluster, log *slog.Logger) (*server.Server, []nats.Option, error) {
	host, port, err := c.check()
	if err != nil {
		return nil, nil, err
	}
	routes, err := c.routes()
	if err != nil {
		return nil, nil, err
	}
	o := &server.Options{
		ServerName: c.Name,
		Host:       "127.0.0.1", // NATS forms no cluster without an address for clients
		Port:       server.RANDOM_PORT,
		Username:   "agent-runner",
		Password:   rand.Text(),
		NoSigs:     true,
		MaxPayload: 1 << 20,
		Routes:     routes,
		Cluster: server.ClusterOpts{
			Name:           "agent-runner",
			Host:           host,
			Port:           port,
			TLSConfig:      c.TLS,
			ConnectBackoff: true,
			NoAdvertise:    true, // does not send the address for clients to other servers
			PingInterval:   pingInterval,
			TLSTimeout:     connectTimeout.Seconds(),
			AuthTimeout:    connectTimeout.Seconds(),
		},
	}
	if c.Password != "" {
		o.Cluster.Username, o.Cluster.Password = "agent-runner", c.Password
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	s.SetLoggerV2(logger{log}, false, false, false)
	go s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		return nil, nil, fmt.Errorf("start the embedded NATS server: it does not listen on %s", c.Listen)
	}
	return s, []nats.Option{nats.InProcessServer(s), nats.UserInfo(o.Username, o.Password)}, nil
}

// ClusterAddr returns the address of the embedded server for other servers, or nil if there is no
// embedded server.
func (b *Bus) ClusterAddr() *net.TCPAddr {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.ClusterAddr()
}

// A logger passes warnings and errors of the embedded server to a log.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(string, ...any) {}
func (l logger) Debugf(string, ...any)  {}
func (l logger) Tracef(string, ...any)  {}

// Warnf omits the advice not to put passwords into NATS's configuration, which is not a file here.
func (l logger) Warnf(format string, v ...any) {
	if !strings.HasPrefix(format, "Plaintext passwords") {
		l.warn(format, v)
	}
}

func (l logger) Errorf(format string, v ...any) { l.warn(format, v) }
func (l logger) Fatalf(format string, v ...any) { l.warn(format, v) }

func (l logger) warn(format string, v []any) {
	l.log.Warn("NATS: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
}
