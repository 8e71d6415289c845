package egress

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true,
		"100.128.0.0": true, "11.0.0.0": true, "192.167.255.255": true, "223.255.255.255": true, "198.20.0.0": true,
		"2606:4700::1111": true, "2a00:1450:4001::1": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.127.255.255": false,
		"127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false, "169.254.170.2": false, "172.16.0.1": false,
		"172.31.255.255": false, "192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false,
		"198.18.0.1": false, "198.51.100.1": false, "203.0.113.9": false, "224.0.0.1": false, "239.1.1.1": false,
		"240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false, "100.100.100.200": false, "::": false,
		"::1": false, "::127.0.0.1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:0:127.0.0.1": false,
		"fe80::1": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "2001:db8::1": false,
		"2001::1": false, "2002:7f00:1::": false, "2002:a00:1::": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false, "100::1": false, "3fff::1": false, "5f00::1": false,
		"fe80::1%eth0": false, "2606:4700::1111%eth0": false,
	} {
		err := checkAddress(netip.MustParseAddr(address), nil)
		require.Equal(t, public, err == nil, address)
	}
	require.Error(t, checkAddress(netip.Addr{}, nil))
}

func TestAllowedAddresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		allowed, address string
		want             bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "::ffff:127.0.0.1", true},
		{"127.0.0.0/8", "::1", false},
		{"127.0.0.0/8", "10.0.0.1", false},
		{"127.0.0.1", "127.0.0.2", false},
		{"::1", "::1", true},
		{"169.254.0.0/16", "169.254.1.1", true},
		{"169.254.0.0/16", "169.254.169.254", false},
		{"0.0.0.0/0", "169.254.169.254", false},
		{"169.254.169.254", "169.254.169.254", true},
		{"0.0.0.0/0", "10.0.0.1", true},
		{"10.1.2.3/8", "10.9.9.9", true},
	} {
		p, err := ParsePrivate(tc.allowed)
		require.NoError(t, err)
		err = checkAddress(netip.MustParseAddr(tc.address), []netip.Prefix{p})
		require.Equal(t, tc.want, err == nil, "%s of %s", tc.address, tc.allowed)
	}
	for _, s := range []string{"", "localhost", "127.0.0.0/33", "fe80::1%eth0", "::ffff:127.0.0.0/104", "10/8"} {
		_, err := ParsePrivate(s)
		require.Error(t, err, s)
	}
}
