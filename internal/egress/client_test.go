package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretValue = `s3cr3t/"value"+&=`

// A site is a server on loopback to which names resolve.
type site struct {
	*httptest.Server
	port    string
	options Options
}

func serve(t *testing.T, secure bool, handler http.HandlerFunc) *site {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s := &site{
		Server: server,
		options: Options{
			Private:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Resolver: resolver(func(string) string { return "127.0.0.1" }),
		},
	}
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
		s.options.RootCAs = x509.NewCertPool()
		s.options.RootCAs.AddCert(server.Certificate())
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	s.port = port
	return s
}

func (s *site) client(t *testing.T) *Client {
	t.Helper()
	c, err := New(&s.options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// resolver returns a resolver that answers queries for IPv4 addresses.
func resolver(answer func(name string) string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(server, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				reply := respond(query, answer)
				if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

// respond answers a DNS query with one question.
func respond(query []byte, answer func(name string) string) []byte {
	var labels []string
	at := 12
	for query[at] != 0 {
		n := int(query[at])
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	question := query[12 : at+5]
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	address, err := netip.ParseAddr(answer(strings.Join(labels, ".")))
	if kind := binary.BigEndian.Uint16(query[at+1:]); kind != 1 || err != nil {
		return reply
	}
	reply[7] = 1
	reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(reply, address.AsSlice()...)
}

func send(t *testing.T, c *Client, r *abi.HTTPRequest, granted ...string) (*abi.HTTPResponse, *abi.Error) {
	t.Helper()
	res, err := c.Send(t.Context(), r, granted)
	if err == nil {
		return res, nil
	}
	var known *abi.Error
	require.ErrorAs(t, err, &known)
	require.Nil(t, res)
	require.NotContains(t, known.Message, "s3cr3t", "secrets are in no error")
	return nil, known
}

func refused(t *testing.T, c *Client, code abi.Code, text string, r *abi.HTTPRequest, granted ...string) {
	t.Helper()
	_, err := send(t, c, r, granted...)
	require.NotNil(t, err, "want an error about %s", text)
	require.Contains(t, err.Message, text)
	require.Equal(t, code, err.Code, err.Message)
}

// TestSend checks the request that a server receives, and the response that a module receives, with
// text and with binary bodies.
func TestSend(t *testing.T) {
	t.Parallel()
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().
			Set("X-Got", fmt.Sprint(r.Proto, " ", r.Method, " ", r.URL, " ", r.Host, " ", r.Header.Get("X-Key"), " ",
				r.UserAgent(), " ", r.Header.Get("Accept-Encoding")))
		w.Header()["X-Many"] = []string{"1", "2"}
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Alt-Svc", "h3")
		w.Header().Set("Date", "today")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	})
	c := s.client(t)
	host := "example.com:" + s.port
	res, failed := send(
		t,
		c,
		&abi.HTTPRequest{
			Method:  "POST",
			URL:     "https://" + host + "/a%2Fb?c=d#e",
			Headers: []abi.HTTPHeader{{Name: "x-key", Value: "v"}},
			Body:    "hé",
		},
		host,
	)
	require.Nil(t, failed)
	require.Equal(t, &abi.HTTPResponse{Status: 418, Body: "hé", Headers: []abi.HTTPHeader{
		{
			Name:  "content-length",
			Value: "3",
		}, {Name: "content-type", Value: "text/plain; charset=utf-8"}, {Name: "date", Value: "today"},
		{
			Name:  "x-got",
			Value: "HTTP/2.0 POST /a%2Fb?c=d " + host + " v agent-runner ",
		}, {Name: "x-many", Value: "1"}, {Name: "x-many", Value: "2"},
	}}, res)
	res, failed = send(
		t,
		c,
		&abi.HTTPRequest{
			Method:     "PUT",
			URL:        "https://" + host,
			Headers:    []abi.HTTPHeader{{Name: "user-agent", Value: "mine"}},
			BodyBase64: "/wA=",
		},
		"other.org",
		"*.com:"+s.port,
	)
	require.Nil(t, failed)
	require.Equal(t, "/wA=", res.BodyBase64)
	require.Empty(t, res.Body)
	require.Contains(t, fmt.Sprint(res.Headers), "PUT / "+host+"  mine")
}

func TestNotGranted(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	s.options.Hosts = []string{"example.com:*"}
	c := s.client(t)
	r := &abi.HTTPRequest{URL: "http://example.com:" + s.port + "/"}
	refused(t, c, abi.CodeDenied, "http:example.com:"+s.port+" is not granted to this entry", r)
	refused(t, c, abi.CodeDenied, "is not granted", r, "example.com")
	refused(
		t,
		c,
		abi.CodeDenied,
		"is not among the hosts that the operator allows",
		&abi.HTTPRequest{URL: "http://example.org/"},
		"example.org",
	)
	refused(t, c, abi.CodeInvalid, "user or password", &abi.HTTPRequest{URL: "http://example.com@evil.org/"}, "*")
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	s.options.Private = nil
	c := s.client(t)
	for _, host := range []string{
		"127.0.0.1", "example.com", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0", "[::]",
	} {
		refused(
			t,
			c,
			abi.CodeDenied,
			"private or reserved address",
			&abi.HTTPRequest{URL: "http://" + host + ":" + s.port + "/"},
			"*:*",
		)
	}
}

// TestRebinding checks that a connection uses the address that was checked, even if the name
// resolves to another address on each query.
func TestRebinding(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	var asked atomic.Int64
	s.options.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")} // nothing listens at this address
	s.options.Resolver = resolver(func(string) string {
		if asked.Add(1)%2 == 1 { // for the A and AAAA queries
			return "127.0.0.9"
		}
		return "127.0.0.1"
	})
	c := s.client(t)
	for range 20 {
		_, err := send(t, c, &abi.HTTPRequest{URL: "http://example.com:" + s.port + "/"}, "*:*")
		require.NotNil(t, err)
	}
}

// TestRedirects checks that redirects are followed to granted hosts only, without the credentials
// of the first host, and that a redirect cannot read or move a secret.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var port string
	target := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(
			w,
			r.Method,
			" ",
			r.URL,
			" ",
			r.Header.Get("Authorization"),
			" ",
			r.Header.Get("X-Key"),
			" ",
			r.Header.Get("X-Plain"),
			" ",
			r.Header.Get("Content-Type"),
			" ",
			string(body),
		)
	})
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			fmt.Fprint(w, r.Method, " ", r.Header.Get("Authorization"), " ", r.URL.RawQuery)
			return
		}
		to := r.URL.Query().Get("to")
		if r.URL.Path == "/loop" {
			to = "/loop"
		}
		if r.URL.Path == "/echo" {
			to = "/here?" + r.URL.RawQuery
		}
		w.Header().Set("Location", strings.ReplaceAll(to, "PORT", port))
		status := http.StatusFound
		_, _ = fmt.Sscan(r.URL.Query().Get("status"), &status)
		w.WriteHeader(status)
	})
	port = target.port
	s.options.Secrets = []Secret{
		{Name: "K", Value: secretValue, Hosts: []string{"127.0.0.1:" + s.port}},
		{Name: "L", Value: "s3cr3t of another", Hosts: []string{"127.0.0.1:*"}},
	}
	c := s.client(t)
	own, other := "127.0.0.1:"+s.port, "127.0.0.1:"+target.port
	ask := func(path string) *abi.HTTPRequest {
		return &abi.HTTPRequest{
			Method: "POST",
			URL:    "http://" + own + path,
			Body:   "body",
			Headers: []abi.HTTPHeader{
				{
					Name:  "Authorization",
					Value: "mine",
				}, {Name: "X-Key", Value: "{{secret:L}}"}, {Name: "X-Plain", Value: "p"}, {Name: "Content-Type", Value: "text/x"}},
		}
	}
	res, failed := send(t, c, ask("/?to=http://127.0.0.1:PORT/x"), own, other)
	require.Nil(t, failed)
	require.Equal(t, "GET /x   p  ", res.Body, "what was for one server is not for another")
	require.Equal(t, "http://"+other+"/x", res.URL)
	res, failed = send(t, c, ask("/?status=307&to=http://127.0.0.1:PORT/x"), own, other)
	require.Nil(t, failed)
	require.Equal(t, "POST /x   p text/x body", res.Body)
	res, failed = send(t, c, ask("/?to=/here"), own)
	require.Nil(t, failed)
	require.Equal(t, "GET mine ", res.Body)
	res, failed = send(t, c, ask("/echo?k={{secret:K}}"), own)
	require.Nil(t, failed)
	require.Equal(t, "GET mine k={{secret:K}}", res.Body)
	require.Equal(t, "http://"+own+"/here?k={{secret:K}}", res.URL)

	for location, want := range map[string]string{
		"http://127.0.0.1:PORT/x":         "is not granted",
		"http://169.254.169.254/latest":   "is not granted",
		"//evil.org/":                     "is not granted",
		"http://example.com:1@127.0.0.1/": "user or password",
		"http://0x7f000001/":              "looks like an address",
		"file:///etc/passwd":              "want https://HOST",
		"gopher://127.0.0.1/":             "want https://HOST",
		"/here?{{secret:L}}":              "asks for a secret",
	} {
		refused(t, c, abi.CodeDenied, want, ask("/?to="+strings.ReplaceAll(location, "{{secret", "%7B%7Bsecret")), own)
	}
	refused(t, c, abi.CodeDenied, "private or reserved", ask("/?to=http://10.0.0.1/"), "*:*")
	refused(t, c, abi.CodeLimit, "more than 5 redirects", ask("/loop"), own, other)
	_, err := (&request{url: "https://a.org/", to: endpoint{"https", "a.org", "443"}}).redirected(302, "http://a.org/")
	require.ErrorContains(t, err, "from https to http")
	r := ask("/?status=307&to=http://127.0.0.1:PORT/x")
	r.Body = "{{secret:K}}"
	refused(t, c, abi.CodeDenied, "body: secret K is not for "+other, r, own, other)
}

// each concatenates the bytes of s, each in the given format.
func each(s, format string) string {
	var out strings.Builder
	for _, b := range []byte(s) {
		fmt.Fprintf(&out, format, b)
	}
	return out.String()
}

// TestLimits checks the limits of requests and responses in size and time, that responses are not
// decompressed, and the error of a canceled request.
func TestLimits(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/slow":
			for {
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
					return
				case <-stop:
					return
				}
			}
		case "/silent":
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		case "/header":
			for i := range 3000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", 50))
			}
		case "/lines":
			w.Header().Set("A-Long", strings.Repeat("v", 9<<10))
			w.Header().Set("B-Bad", "\xff")
			for i := range 200 {
				w.Header().Set(fmt.Sprintf("X-%d", i), "v")
			}
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(make([]byte, 10<<20))
			_ = z.Close()
			_, _ = w.Write(b.Bytes())
		case "/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		}
	})
	t.Cleanup(func() { close(stop) })
	s.options.ResponseBytes, s.options.RequestBytes = 64<<10, 1000
	c := s.client(t)
	host := "127.0.0.1:" + s.port
	at := func(path string) *abi.HTTPRequest {
		return &abi.HTTPRequest{URL: "http://" + host + path, TimeoutMS: 60_000}
	}
	refused(t, c, abi.CodeLimit, "the response body has more than 65536 bytes", at("/endless"), host)
	refused(t, c, abi.CodeLimit, "the response header has more than 65536 bytes", at("/header"), host)
	refused(t, c, abi.CodeUnavailable, "ended early", at("/broken"), host)
	large := at("/")
	large.Body = strings.Repeat("x", 1001)
	refused(t, c, abi.CodeLimit, "the request body has more than 1000 bytes", large, host)
	for _, path := range []string{"/slow", "/silent"} {
		r := at(path)
		r.TimeoutMS = 50
		refused(t, c, abi.CodeUnavailable, "did not answer in time", r, host)
	}
	res, failed := send(t, c, at("/lines"), host)
	require.Nil(t, failed)
	require.Len(t, res.Headers, maxLines)
	require.NotContains(t, fmt.Sprint(res.Headers), "a-long")
	require.NotContains(t, fmt.Sprint(res.Headers), "b-bad")
	res, failed = send(t, c, at("/gzip"), host)
	require.Nil(t, failed)
	require.Less(t, len(res.BodyBase64), 20<<10, "nothing is unpacked")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the run is over"))
	_, err := c.Send(ctx, at("/silent"), []string{host})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})
}

// TestConcurrencyLimit checks that a request over the concurrency limit waits, and fails if its
// time is over before another request ends.
func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, false, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	s.options.Concurrent = 1
	c := s.client(t)
	host := "127.0.0.1:" + s.port
	done := make(chan error)
	go func() {
		_, err := c.Send(context.Background(), &abi.HTTPRequest{URL: "http://" + host}, []string{host})
		done <- err
	}()
	<-arrived
	refused(
		t,
		c,
		abi.CodeUnavailable,
		"too many requests in flight",
		&abi.HTTPRequest{URL: "http://" + host, TimeoutMS: 10},
		host,
	)
	close(release)
	require.NoError(t, <-done)
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	s := serve(t, true, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	refused(
		t,
		s.client(t),
		abi.CodeUnavailable,
		"certificate is valid for example.com",
		&abi.HTTPRequest{URL: "https://wrong.org:" + s.port},
		"*:*",
	)
	s.options.RootCAs = nil
	refused(
		t,
		s.client(t),
		abi.CodeUnavailable,
		"unknown authority",
		&abi.HTTPRequest{URL: "https://example.com:" + s.port},
		"*:*",
	)
	plain := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	refused(
		t,
		plain.client(t),
		abi.CodeUnavailable,
		"does not speak https",
		&abi.HTTPRequest{URL: "https://example.com:" + plain.port},
		"*:*",
	)
}

// TestNoProxy checks that proxy settings in the environment are ignored.
func TestNoProxy(t *testing.T) {
	proxy := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("a request went to the proxy") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	_, failed := send(t, s.client(t), &abi.HTTPRequest{URL: "http://example.com:" + s.port}, "*:*")
	require.Nil(t, failed)
}
