package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/gatewaytest"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// Headers with which a test controls the upstream's answer. headerCut is the number of bytes after
// which the upstream closes the connection. If headerSlow is set, the upstream sends each byte on its
// own.
const (
	headerCut  = "X-Cut"
	headerSlow = "X-Slow"
)

// cutAnswer has characters of several bytes, a placeholder, an allowed call and a denied call.
var cutAnswer = gatewaytest.Answer{
	Reasoning: "Grüße an 🌍.",
	Text:      "Grüße 🌍 an [EMAIL_1]: ✓.",
	Calls: []gatewaytest.Call{
		{ID: "c1", Name: "get_weather", Arguments: `{"for":"[EMAIL_1]"}`},
		{ID: "c2", Name: "delete_file", Arguments: `{"name":"ä"}`},
	},
}

// A cutter requests streams through a gateway with three modules, and cuts them off.
type cutter struct {
	at     string            // the gateway's address
	stream map[string]string // what the upstream sends, by protocol
}

func newCutter(t *testing.T) (*cutter, *host.Host) {
	c := &cutter{stream: map[string]string{}}
	for protocol := range gatewaytest.Paths {
		c.stream[protocol] = strings.Join(cutAnswer.Events(protocol), "")
	}
	up := httptest.NewServer(http.HandlerFunc(c.answer))
	t.Cleanup(up.Close)
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	entries := ""
	for name, config := range map[string]string{
		"redact": "{reversible: true}", "tool-policy": "{rules: [{tools: [delete_file], action: deny}]}", "trace": "{}",
	} {
		module, err := guestbuild.Module(t.Context(), root, "examples/wasm-middlewares/"+name)
		require.NoError(t, err)
		entries += fmt.Sprintf("{module: %q, config: %s},", module, config)
	}
	routes := "routes:\n"
	for protocol := range gatewaytest.Paths {
		routes += fmt.Sprintf("- {protocol: %s, upstream: %q, middlewares: [%s]}\n", protocol, up.URL, entries)
	}
	f, err := load(t, routes)
	require.NoError(t, err)
	g, err := gateway.New(t.Context(), h, f, nil)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	c.at = s.URL
	return c, h
}

// answer serves requests as the upstream.
func (c *cutter) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	all := ""
	for protocol, path := range gatewaytest.Paths {
		if path == r.URL.Path {
			all = c.stream[protocol]
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	cut, err := strconv.Atoi(r.Header.Get(headerCut))
	switch control := http.NewResponseController(w); {
	case err == nil:
		_, _ = io.WriteString(w, all[:cut])
		_ = control.Flush()
		panic(http.ErrAbortHandler)
	case r.Header.Get(headerSlow) != "":
		for i := range len(all) {
			_, _ = io.WriteString(w, all[i:i+1])
			_ = control.Flush()
		}
	default:
		for event := range strings.SplitAfterSeq(all, "\n\n") {
			_, _ = io.WriteString(w, event)
			_ = control.Flush()
		}
	}
}

// ask sends a request that contains an email address. It returns the status and the first n bytes
// of the response, or all of them if n is 0, and closes the connection.
func (c *cutter) ask(ctx context.Context, protocol, address string, n int, headers ...string) (int, string, error) {
	field := "messages"
	if protocol == gatewaytest.Responses {
		field = "input"
	}
	body := fmt.Sprintf(`{"model":"m","stream":true,%q:[{"role":"user","content":"Write to %s."}]}`, field, address)
	at := c.at + gatewaytest.Paths[protocol]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	var r io.Reader = res.Body
	if n > 0 {
		r = io.LimitReader(r, int64(n))
	}
	b, err := io.ReadAll(r)
	return res.StatusCode, string(b), err
}

// whole returns the answer that a client receives if no connection is cut off. The answer contains
// the address with the given number.
func whole(number int) *gatewaytest.Received {
	address := addressOf(number)
	return &gatewaytest.Received{
		Text:  strings.ReplaceAll(cutAnswer.Text, "[EMAIL_1]", address),
		Calls: []string{"get_weather"}, Ended: true,
	}
}

func addressOf(number int) string { return fmt.Sprintf("user%d@example.com", number) }

const denial = "[tool-policy denied the call of delete_file"

// checkCut checks the part of a response that a client received before the response was cut off. The
// text must be a beginning of the whole text. Calls may follow the text only if the response is
// complete.
func checkCut(protocol string, number int, got string) error {
	want, r := whole(number), gatewaytest.Receive(protocol, got)
	text, denied, _ := strings.Cut(r.Text, denial)
	text = strings.TrimSuffix(text, "\n\n")
	switch {
	case !strings.HasPrefix(want.Text, text):
		return fmt.Errorf("the text is %q, want a beginning of %q", text, want.Text)
	case strings.Contains(got, "delete_file\"") || strings.Contains(got, `"ä`):
		return fmt.Errorf("the client got a denied call: %s", got)
	case r.Failed && (len(r.Calls) > 0 || denied != ""):
		return fmt.Errorf("the client got a call of an answer that was cut: %s", got)
	case r.Ended && text != want.Text:
		return fmt.Errorf("the answer ended with the text %q", text)
	}
	return nil
}

// TestCut cuts off streams of each protocol on both sides of a gateway: within an event, within a
// character, and between events. Afterwards no goroutine or module instance may remain, and no client
// may have received a value of another client's request.
func TestCut(t *testing.T) {
	for name, each := range map[string]bool{"some bytes": false, "each byte": true} {
		t.Run(name, func(t *testing.T) {
			cuts := 12 // for each protocol and side
			if each {
				longtest.Skip(t)
				cuts = 1 << 30
			}
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() {
				http.DefaultClient.CloseIdleConnections()
				goleak.VerifyNone(t, before)
			})
			c, h := newCutter(t)
			streams := 0
			var memory uint64
			for protocol := range gatewaytest.Paths {
				full := c.full(t, protocol)
				if memory == 0 {
					memory = heap()
				}
				streams += c.cutEach(t, protocol, len(c.stream[protocol]), cuts, c.upstreamGone)
				streams += c.cutEach(t, protocol, len(full), cuts, c.clientGone)
			}
			t.Logf("%d streams", streams)
			if each {
				require.Greater(t, streams, 10_000)
				require.Less(t, heap(), memory+64<<20)
			}
			require.Eventually(t, func() bool { return h.Loader().Instances() == 0 }, 10*time.Second, 10*time.Millisecond)
		})
	}
}

// full requests a stream that is not cut off, at full speed and byte by byte. It checks the
// responses and returns the first one.
func (c *cutter) full(t *testing.T, protocol string) string {
	status, full, err := c.ask(t.Context(), protocol, addressOf(0), 0)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, full)
	r := gatewaytest.Receive(protocol, full)
	require.Contains(t, r.Text, denial)
	require.NoError(t, checkCut(protocol, 0, full))
	require.Equal(t, []string{"get_weather"}, r.Calls)
	require.True(t, r.Ended)

	_, slow, err := c.ask(t.Context(), protocol, addressOf(0), 0, headerSlow, "1")
	require.NoError(t, err)
	require.Equal(t, r, gatewaytest.Receive(protocol, slow))
	return full
}

// cutEach cuts off about cuts streams of size bytes at different positions, and returns their number.
func (c *cutter) cutEach(
	t *testing.T,
	protocol string,
	size, cuts int,
	cut func(context.Context, string, int) error,
) int {
	step := max(1, size/cuts)
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	n := 0
	for i := 1; i < size; i += step {
		n++
		g.Go(func() error {
			if err := cut(ctx, protocol, i); err != nil {
				return fmt.Errorf("%s, cut at byte %d: %w", protocol, i, err)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	return n
}

// upstreamGone requests a stream whose upstream disconnects after n bytes.
func (c *cutter) upstreamGone(ctx context.Context, protocol string, n int) error {
	status, got, err := c.ask(ctx, protocol, addressOf(n), 0, headerCut, strconv.Itoa(n))
	r := gatewaytest.Receive(protocol, got)
	switch {
	case err != nil:
		return err
	case !utf8.ValidString(got):
		return fmt.Errorf("the client got half a character: %q", got)
	case status != http.StatusOK && status != http.StatusBadGateway:
		return fmt.Errorf("status %d: %s", status, got)
	case status == http.StatusOK && r.Failed == r.Ended:
		return fmt.Errorf("the answer neither failed nor ended: %s", got)
	}
	return checkCut(protocol, n, got)
}

// clientGone requests a stream and disconnects after n bytes.
func (c *cutter) clientGone(ctx context.Context, protocol string, n int) error {
	_, got, err := c.ask(ctx, protocol, addressOf(n), n)
	if err != nil {
		return err
	}
	return checkCut(protocol, n, got)
}

// heap returns the memory that is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
