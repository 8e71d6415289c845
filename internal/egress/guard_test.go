package egress

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	s.options.Hosts = []string{"example.com:*", "10.0.0.1"}
	client := &http.Client{Transport: s.client(t).Guard()}
	post := func(url string) (string, error) {
		res, err := client.Post(url, "text/plain", strings.NewReader("hello"))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	at := "http://example.com:" + s.port
	got, err := post(at)
	require.NoError(t, err)
	require.Equal(t, "hello", got)
	for url, want := range map[string]string{
		"http://127.0.0.1:" + s.port: "not among the hosts that the operator allows",
		at + "/?to=http://evil.org/": "not among the hosts that the operator allows",
		at + "/?to=http://10.0.0.1/": "private or reserved address",
		"http://0x7f.1/":             "looks like an address",
	} {
		_, err = post(url)
		require.ErrorContains(t, err, want)
	}
}

// TestGuardHidesAddresses checks that errors do not reveal the addresses that a name resolves to,
// or the DNS server's address.
func TestGuardHidesAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, free, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	require.NoError(t, taken.Close())
	s.options.Hosts = []string{"*:*"}
	s.options.Resolver = resolver(func(name string) string {
		return map[string]string{"inside.example.com": "10.1.2.3", "example.com": "127.0.0.1"}[name]
	})
	client := &http.Client{Transport: s.client(t).Guard()}
	for url, want := range map[string]string{
		"http://inside.example.com/":   "private or reserved address",
		"http://example.com:" + free:   "connection refused",
		"http://none.example.com/":     "no such host",
		"http://example.com:" + s.port: "unexpected EOF",
	} {
		res, err := client.Get(url)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			require.NoError(t, res.Body.Close())
		}
		require.ErrorContains(t, err, want, url)
		require.NotRegexp(t, `\d+\.\d+\.\d+\.\d+|->`, err.Error(), url)
	}
	for _, failed := range []error{
		&net.OpError{Op: "read", Net: "tcp", Source: taken.Addr(), Addr: taken.Addr(), Err: syscall.ECONNRESET},
		&net.OpError{
			Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "a.example.com", Server: "10.0.0.2:53"},
		},
	} {
		bare := withoutAddresses(failed)
		require.NotRegexp(t, `\d+\.\d+\.\d+\.\d+`, bare.Error())
		var op *net.OpError
		require.ErrorAs(t, bare, &op, "it is of the kind that it was")
	}
	require.ErrorIs(t, withoutAddresses(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), syscall.ECONNRESET)
}
