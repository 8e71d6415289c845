package egress

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// reserved are the addresses that are nobody's on the public Internet, by the
// registries of special-purpose addresses of IANA. Of IPv6 only 2000::/3 is
// handed out, so here are the exceptions within it.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// metadata are addresses at which clouds tell a machine its credentials, or
// take orders from it. A range that is allowed does not allow them: only their
// own address does.
var metadata = prefixes(
	"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
	"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
)

var (
	global = netip.MustParsePrefix("2000::/3")
	// nat64 holds IPv4 addresses in their last four bytes; a translator connects
	// to those.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// An addressError says that an address may not be connected to. The address is
// not in it: a module does not learn what a network's names stand for.
type addressError struct{}

func (*addressError) Error() string {
	return "the host has a private or reserved address, which agents and modules may not connect to"
}

// checkAddress reports whether a may be connected to.
func checkAddress(a netip.Addr, allowed []netip.Prefix) error {
	if !a.IsValid() || a.Zone() != "" {
		return &addressError{}
	}
	a = plain(a)
	for _, p := range allowed {
		if p.Contains(a) && (!within(metadata, a) || p.IsSingleIP()) {
			return nil
		}
	}
	if within(metadata, a) || within(reserved, a) || a.Is6() && !global.Contains(a) {
		return &addressError{}
	}
	return nil
}

// plain returns the IPv4 address that one of IPv6 stands for, if it does.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// ParsePrivate reads a range of addresses that modules may connect to although
// it is private: 127.0.0.0/8, or one address.
func ParsePrivate(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no range of addresses; want one like 127.0.0.0/8 or ::1/128", short(s))
	}
	return p.Masked(), nil
}

// control is called for each address right before it is connected to. Names
// were resolved by then, so that an answer of DNS that changes between a check
// and the connection changes nothing.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &addressError{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return &addressError{}
	}
	return checkAddress(a, c.private)
}
