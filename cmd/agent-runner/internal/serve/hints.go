package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/hints/natsbus"
	"github.com/agent-runner/agent-runner/internal/hints/notify"
)

// EnvNATS is the environment variable with the default of --nats.
const EnvNATS = "AGENT_RUNNER_NATS"

// clusterFlags configure how the servers that share a database reach each other.
type clusterFlags struct {
	nats         string
	listen       string
	join         []string
	passwordFile string
	cert         string
	key          string
	ca           string
}

// add adds the flags to the command.
func (c *clusterFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(
		&c.nats,
		"nats",
		"",
		"send hints to the other servers through the NATS servers at `URL` instead of PostgreSQL's NOTIFY (default: $"+EnvNATS+")",
	)
	f.StringVar(&c.listen, "cluster-listen", "",
		"send hints through NATS servers within the servers: accept the others at `ADDRESS`")
	f.StringArrayVar(&c.join, "join", nil, "join the server whose --cluster-listen is `ADDRESS`; one that is up suffices")
	f.StringVar(
		&c.passwordFile,
		"cluster-password-file",
		"",
		"the `FILE` with the password that all servers of the cluster have",
	)
	f.StringVar(&c.cert, "cluster-cert", "", "the `FILE` with the certificate for connections within the cluster (PEM)")
	f.StringVar(&c.key, "cluster-key", "", "the `FILE` with its key")
	f.StringVar(&c.ca, "cluster-ca", "", "the `FILE` with the authorities of the other servers' certificates")
}

// address returns the URLs in --nats or in the environment. If --cluster-listen is set, it ignores
// the environment, because this process then runs a NATS server.
func (c *clusterFlags) address(getenv func(string) string) string {
	if c.nats == "" && c.listen == "" {
		return getenv(EnvNATS)
	}
	return c.nats
}

// check rejects flags that contradict each other or the location of the store.
func (c *clusterFlags) check(store string) error {
	switch {
	case c.nats != "" && c.listen != "":
		return cli.Usagef("--nats and --cluster-listen are mutually exclusive")
	case c.listen == "" && (len(c.join) > 0 || c.passwordFile+c.cert+c.key+c.ca != ""):
		return cli.Usagef("--join and the --cluster flags need --cluster-listen ADDRESS")
	case !isPostgres(store) && c.nats+c.listen != "":
		return cli.Usagef(
			"--nats and --cluster-listen are for servers that share a PostgreSQL database; set --store postgres://…")
	}
	return nil
}

// open returns the bus of a server whose store is at a location. It returns [hints.None] for a store
// that no other server can share. The default for other stores is NOTIFY of the database. open
// listens and reads all files before it returns.
func (c *clusterFlags) open(getenv func(string) string, store string, log *slog.Logger) (hints.Bus, error) {
	if err := c.check(store); err != nil {
		return nil, err
	}
	address := c.address(getenv)
	switch {
	case !isPostgres(store):
		return hints.None{}, nil
	case address != "":
		return c.external(address, log)
	case c.listen != "":
		return c.embedded(log)
	}
	return notify.Open(store, log)
}

// external returns a bus through the NATS servers at address.
func (c *clusterFlags) external(address string, log *slog.Logger) (hints.Bus, error) {
	for _, one := range strings.Split(address, ",") {
		if u, err := url.Parse(one); err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return nil, cli.Usagef(
				"--nats: want URLs such as nats://10.0.0.5:4222 or tls://nats.example.com, separated by commas",
			)
		}
	}
	bus, err := natsbus.Open(&natsbus.Options{URL: address, Logger: log})
	if err != nil {
		return nil, cli.Usagef("--nats: %w", err)
	}
	return bus, nil
}

// embedded returns a bus through a NATS server in this process.
func (c *clusterFlags) embedded(log *slog.Logger) (hints.Bus, error) {
	cluster := &natsbus.Cluster{Listen: c.listen, Join: c.join}
	if c.passwordFile != "" {
		b, err := cli.ReadFile(c.passwordFile, maxKeyFile)
		if err != nil {
			return nil, cli.Usagef("--cluster-password-file: %w", err)
		}
		cluster.Password = strings.TrimSpace(string(b))
	}
	var err error
	if cluster.TLS, err = c.tls(); err != nil {
		return nil, err
	}
	bus, err := natsbus.Open(&natsbus.Options{Cluster: cluster, Logger: log})
	if err != nil {
		return nil, cli.Usagef("--cluster-listen: %w", err)
	}
	return bus, nil
}

// tls returns the configuration of --cluster-cert, --cluster-key and --cluster-ca, or nil without
// them. Servers verify each other's certificates.
func (c *clusterFlags) tls() (*tls.Config, error) {
	if c.cert == "" && c.key == "" && c.ca == "" {
		return nil, nil
	}
	if c.cert == "" || c.key == "" || c.ca == "" {
		return nil, cli.Usagef("--cluster-cert, --cluster-key and --cluster-ca belong together; set all three")
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, cli.Usagef("--cluster-cert: %w", err)
	}
	text, err := cli.ReadFile(c.ca, 1<<20)
	if err != nil {
		return nil, cli.Usagef("--cluster-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, cli.Usagef("--cluster-ca: %s has no certificate in PEM", c.ca)
	}
	if err := verifyPeer(&pair, pool); err != nil {
		return nil, cli.Usagef("--cluster-cert: the other servers would reject %s: %w", c.cert, err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// verifyPeer checks that servers which trust the authorities accept the certificate now, as that of a
// server and as that of a client.
func verifyPeer(pair *tls.Certificate, authorities *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{
			Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ports returns the TCP ports to which the bus connects.
func (c *clusterFlags) ports(getenv func(string) string) (out []uint16) {
	add := func(port string) {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			out = append(out, uint16(n))
		}
	}
	for _, address := range c.join {
		if _, port, err := net.SplitHostPort(address); err == nil {
			add(port)
		}
	}
	for _, one := range strings.Split(c.address(getenv), ",") {
		if u, err := url.Parse(one); err == nil && u.Host != "" {
			add(cmp.Or(u.Port(), "4222"))
		}
	}
	return out
}
