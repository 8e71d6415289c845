package serve

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// dnsPort is always allowed, because long DNS answers use TCP.
const dnsPort = 53

// confines reports whether the server confines the process. Tests that serve in their own
// process do not.
func (c *serveCommand) confines() bool { return c.env.Own && !c.noConfine }

// ownTempDir sets $TMPDIR to a directory that only servers of this user share. It does nothing if the
// server does not confine the process.
func (c *serveCommand) ownTempDir() error {
	if !c.confines() {
		return nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("agent-runner-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Another user may have created the directory, or a link in its place.
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !hosting.IsOwn(info) || info.Mode().Perm()&0o077 != 0 {
		return cli.Usagef(
			"%s belongs to another user, or others can read it; remove it, or set $TMPDIR to a directory of your own",
			dir,
		)
	}
	return os.Setenv("TMPDIR", dir)
}

// confine restricts the process to the files, ports and system calls that the server
// needs, as far as the kernel supports it. It does nothing if confines returns false.
func (c *serveCommand) confine(store, cacheDir string) error {
	if !c.confines() {
		return nil
	}
	needs, err := c.needs(store, cacheDir)
	if err != nil {
		return err
	}
	if err := needs.enforce(); err != nil {
		return fmt.Errorf("confine the server: %w; to serve without confinement: --no-confine", err)
	}
	return nil
}

// needs returns the paths, sockets and ports that depend on the flags.
func (c *serveCommand) needs(store, cacheDir string) (*confinement, error) {
	n := &confinement{write: []string{os.TempDir()}}
	if cacheDir != "" {
		n.write = append(n.write, cacheDir)
	}
	ports := []uint16{dnsPort}
	if isPostgres(store) {
		config, err := pgx.ParseConfig(store)
		if err != nil {
			return nil, err
		}
		ports = append(ports, config.Port)
		hosts := []string{config.Host}
		for _, other := range config.Fallbacks {
			ports, hosts = append(ports, other.Port), append(hosts, other.Host)
		}
		for _, host := range hosts {
			if strings.HasPrefix(host, "/") {
				n.sockets = append(n.sockets, host)
			}
		}
	} else {
		// SQLite creates and removes files in the directory of the database.
		path, err := filepath.EvalSymlinks(strings.TrimPrefix(store, "file://"))
		if err != nil {
			return nil, err
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		n.write = append(n.write, filepath.Dir(path))
	}
	if len(c.connectPorts) == 0 {
		return n, nil
	}
	for _, name := range []string{
		agentfile.EnvBaseURL, agentfile.EnvAnthropicBaseURL, hosting.EnvOTLP, hosting.EnvOTLPTraces,
	} {
		if port := portOf(c.env.Getenv(name)); port != 0 {
			ports = append(ports, port)
		}
	}
	if port := portOf(c.issuer); port != 0 {
		ports = append(ports, port)
	}
	for _, port := range c.connectPorts {
		ports = append(ports, uint16(port))
	}
	ports = append(ports, c.cluster.ports(c.env.Getenv)...)
	n.connect = ports
	return n, nil
}

func isPostgres(store string) bool {
	scheme, _, _ := strings.Cut(store, "://")
	return scheme == "postgres" || scheme == "postgresql"
}

// portOf returns the port of a URL: the one in the URL, else the default of http or https, else
// 0.
func portOf(address string) uint16 {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	switch port, _ := strconv.ParseUint(u.Port(), 10, 16); {
	case port != 0:
		return uint16(port)
	case u.Scheme == "https":
		return 443
	case u.Scheme == "http":
		return 80
	}
	return 0
}
