package egress

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// reserved lists the addresses outside the public Internet, from IANA's registries of
// special-purpose addresses. It lists IPv6 addresses only within 2000::/3, because checkAddress
// rejects all others.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// metadata lists addresses at which clouds serve a machine's credentials or accept commands.
// Allowing a range does not allow them; only allowing the exact address does.
var metadata = prefixes(
	"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
	"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
)

var (
	global = netip.MustParsePrefix("2000::/3")
	// nat64 addresses end with the four bytes of an IPv4 address. A translator connects to that
	// address.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// An addressError reports that connecting to an address is not allowed. It omits the address, because
// modules must not learn how names resolve in the operator's network.
type addressError struct{}

func (*addressError) Error() string {
	return "the host has a private or reserved address, which agents and modules may not connect to"
}

// checkAddress returns an error unless the address is public or in one of the allowed ranges.
// Metadata addresses are rejected unless allowed contains the exact address.
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

// plain returns the IPv4 address inside an IPv4-mapped or NAT64 address. It returns any other address
// unchanged.
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

// ParsePrivate parses a range of addresses for Options.Private, such as 127.0.0.0/8, or a single address. It returns
// an error for other text, and for a range of IPv4-mapped IPv6 addresses.
func ParsePrivate(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not a range of addresses; want one like 127.0.0.0/8 or ::1/128", short(s))
	}
	return p.Masked(), nil
}

// control checks each address right before the connection is made. Names are resolved by then, so a
// DNS answer that changes after a check has no effect.
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
