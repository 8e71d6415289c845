package clusterchaos

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// A network is a bridge in this namespace and hosts in namespaces of their own.
type network struct {
	name  string // prefix of the names of its devices and namespaces
	hosts []*host

	mu  sync.Mutex
	cut map[[2]*host]bool
}

// A host is a network namespace with one address.
type host struct {
	network   *network
	namespace string
	address   string
}

// outside is the address of this process in the network.
const outside = "10.77.0.1"

// newNetwork returns a network without hosts. Its method remove removes it.
func newNetwork(name string) (*network, error) {
	n := &network{name: name, cut: map[[2]*host]bool{}}
	if err := ip("link", "add", name, "type", "bridge"); err != nil {
		return nil, err
	}
	if err := ip("addr", "add", outside+"/24", "dev", name); err != nil {
		return nil, err
	}
	return n, ip("link", "set", name, "up")
}

// add adds a host with the address 10.77.0.last.
func (n *network) add(last int) (*host, error) {
	h := &host{network: n, namespace: fmt.Sprint(n.name, "-", last), address: fmt.Sprint("10.77.0.", last)}
	n.hosts = append(n.hosts, h)
	out, in := fmt.Sprint(n.name, last, "o"), fmt.Sprint(n.name, last, "i")
	for _, args := range [][]string{
		{"netns", "add", h.namespace},
		{"link", "add", out, "type", "veth", "peer", "name", in},
		{"link", "set", in, "netns", h.namespace},
		{"link", "set", out, "master", n.name, "up"},
		{"-n", h.namespace, "addr", "add", h.address + "/24", "dev", in},
		{"-n", h.namespace, "link", "set", in, "up"},
		{"-n", h.namespace, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// drop drops the packets from h to another host if is is true, and lets them pass again otherwise.
func (h *host) drop(to *host, is bool) error {
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[[2]*host{h, to}] == is {
		return nil
	}
	n.cut[[2]*host{h, to}] = is
	verb := "del"
	if is {
		verb = "add"
	}
	return ip("-n", h.namespace, "route", verb, "blackhole", to.address+"/32")
}

// heal lets all packets pass again.
func (n *network) heal() (err error) {
	for _, h := range n.hosts {
		for _, to := range n.hosts {
			if e := h.drop(to, false); e != nil {
				err = e
			}
		}
	}
	return err
}

// command returns a command that runs a program in the host's namespace, with the name of the namespace
// as its host name. The command's process is the program itself.
func (h *host) command(program string, args ...string) *exec.Cmd {
	const named = `echo "$0" > /proc/sys/kernel/hostname && exec "$@"`
	return exec.Command("nsenter", slices.Concat([]string{"--net=/run/netns/" + h.namespace, "unshare", "--uts",
		"sh", "-c", named, h.namespace, program}, args)...)
}

// remove removes the hosts and the bridge.
func (n *network) remove() {
	for _, h := range n.hosts {
		_ = ip("netns", "del", h.namespace)
	}
	_ = ip("link", "del", n.name)
}

// ip runs the command ip of iproute2.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
