package servertest

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Serve serves on a local port until the test ends, as the serve command does, and returns the
// address.
func (f *Fixture) Serve(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.ServeOn(t, l)
	return l.Addr().String()
}

// ServeOn serves on l until the test ends.
func (f *Fixture) ServeOn(t *testing.T, l net.Listener) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		<-served
	})
}

// SendText opens a connection and sends text. The connection is closed when the test ends.
func SendText(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}
