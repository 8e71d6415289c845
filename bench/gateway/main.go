// Command gateway measures the time that the gateway adds to requests, against the same upstream without
// it. It writes docs/gateway-figures.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
)

// The sizes of a request and an answer: those of a coding agent's first request, and a short answer.
const (
	requestBytes = 50 << 10
	answerEvents = 40
)

// each is the duration of one measurement. rounds is the number of measurements of each peer; the
// measurements of the peers alternate.
const (
	each   = 1500 * time.Millisecond
	rounds = 5
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gateway FOLDER-OF-MODULES OUTPUT.md")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// A peer is a way to reach the upstream.
type peer struct {
	name string
	url  string
}

func run(ctx context.Context, modules, output string) error {
	up, err := serve(http.HandlerFunc(upstream))
	if err != nil {
		return err
	}
	// A request reserves the memory that its modules may use, which is not measured here.
	h, err := host.New(ctx, &host.Options{MemoryBytes: 1 << 50})
	if err != nil {
		return err
	}
	peers := []peer{{"no gateway", up}}
	for _, c := range []struct{ name, suffix string }{
		{"gateway, no modules", "-"}, {"gateway, three Go modules", ".wasm"}, {"gateway, three C modules", "-c.wasm"},
		{"gateway, three TypeScript modules", ".ts"},
	} {
		at, err := startGateway(ctx, h, up, modules, c.suffix)
		if errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "%s: left out: %v\n", c.name, err)
			continue
		}
		if err != nil {
			return err
		}
		peers = append(peers, peer{c.name, at})
	}
	var b bytes.Buffer
	b.WriteString(head())
	for _, stream := range []bool{false, true} {
		if err := table(&b, peers, stream); err != nil {
			return err
		}
	}
	if err := memory(&b, peers); err != nil {
		return err
	}
	return os.WriteFile(output, b.Bytes(), 0o644)
}

// serve serves a handler on a free port, and returns its address.
func serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(l, h) }()
	return "http://" + l.Addr().String(), nil
}

// startGateway starts a gateway with the modules redact, tool-policy and sentences from folder, and
// returns its address. The file of a module has its name followed by suffix.
func startGateway(ctx context.Context, h *host.Host, up, folder, suffix string) (string, error) {
	var list []string
	for _, name := range []string{"redact", "tool-policy", "sentences"} {
		path := filepath.Join(folder, name+suffix)
		if suffix == ".ts" {
			path = filepath.Join("..", "examples", "wasm-middlewares", name, name+suffix)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		config := "{}"
		if name == "tool-policy" {
			config = "{rules: [{tools: [rm], action: deny}]}"
		}
		if suffix == "-" {
			break
		}
		if _, err := os.Stat(path); err != nil {
			return "", err
		}
		list = append(list, fmt.Sprintf("{module: %q, config: %s}", path, config))
	}
	dir, err := os.MkdirTemp("", "bench-gateway")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "gateway.yaml")
	const route = "max_requests: 1000\nroutes: [{protocol: chat, upstream: %q, middlewares: [%s]}]"
	text := fmt.Sprintf(route, up, strings.Join(list, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	f, err := gateway.LoadFile(path)
	if err != nil {
		return "", err
	}
	g, err := gateway.New(ctx, h, f, nil)
	if err != nil {
		return "", err
	}
	return serve(g)
}

// table measures all peers with 1, 16 and 256 clients.
func table(b *bytes.Buffer, peers []peer, stream bool) error {
	fmt.Fprintf(b, "\n## %s\n\n", map[bool]string{false: "Whole answers", true: "Streamed answers"}[stream])
	b.WriteString(
		"| | clients | requests a second | p50, ms | p99, ms | first byte p50, ms | added at p50, ms | added at p99, ms |\n" +
			"|---|---|---|---|---|---|---|---|\n",
	)
	for _, clients := range []int{1, 16, 256} {
		results := make([][]sample, len(peers))
		for range rounds {
			for i, p := range peers {
				s, err := load(p.url, clients, stream)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				results[i] = append(results[i], s...)
			}
		}
		base := summarize(results[0])
		for i, p := range peers {
			s := summarize(results[i])
			fmt.Fprintf(b, "| %s | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", p.name, clients,
				float64(len(results[i]))/(rounds*each.Seconds()), s.p50, s.p99, s.first, s.p50-base.p50, s.p99-base.p99)
		}
	}
	return nil
}

// A sample is one request: the time to the first byte and to the end.
type sample struct{ first, all time.Duration }

type summary struct{ p50, p99, first float64 } // milliseconds

func summarize(list []sample) summary {
	var all, first []time.Duration
	for _, s := range list {
		all, first = append(all, s.all), append(first, s.first)
	}
	slices.Sort(all)
	slices.Sort(first)
	at := func(d []time.Duration, q float64) float64 {
		return float64(d[int(q*float64(len(d)-1))].Microseconds()) / 1000
	}
	return summary{at(all, 0.5), at(all, 0.99), at(first, 0.5)}
}

// load sends requests to url with the given number of concurrent clients for the duration each, and
// returns a sample of each request.
func load(url string, clients int, stream bool) ([]sample, error) {
	body := request(stream)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var out []sample
	var failed error
	var wg sync.WaitGroup
	end := time.Now().Add(each)
	for range clients {
		wg.Go(func() {
			var mine []sample
			var err error
			for err == nil && time.Now().Before(end) {
				var s sample
				if s, err = send(client, url, body); err == nil {
					mine = append(mine, s)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out, failed = append(out, mine...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	return out, failed
}

func send(client *http.Client, url string, body []byte) (sample, error) {
	began := time.Now()
	res, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return sample{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		return sample{}, fmt.Errorf("%s: %s", res.Status, b)
	}
	var one [1]byte
	if _, err := io.ReadFull(res.Body, one[:]); err != nil {
		return sample{}, err
	}
	s := sample{first: time.Since(began)}
	_, err = io.Copy(io.Discard, res.Body)
	s.all = time.Since(began)
	return s, err
}

// request returns the body of a request of at least requestBytes bytes, most of which is a history
// of messages.
func request(stream bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(
		&b,
		`{"model":"m","stream":%v,"tools":[{"type":"function","function":{"name":"rm","parameters":{"type":"object"}}}],"messages":[`,
		stream,
	)
	for i := 0; b.Len() < requestBytes; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		role := []string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `{"role":%q,"content":"%s"}`, role, strings.Repeat("some words of the conversation ", 60))
	}
	b.WriteString("]}")
	return b.Bytes()
}

// upstream answers at once.
func upstream(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body[:min(len(body), 100)], []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(
			w,
			`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
				`"content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
			strings.Repeat("A sentence. ", answerEvents),
		)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(
			w,
			"data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"+
				"\"delta\":%s,\"finish_reason\":%s}]}\n\n",
			delta,
			finish,
		)
		w.(http.Flusher).Flush()
	}
	chunk(`{"role":"assistant","content":""}`, "null")
	for i := range answerEvents {
		if i == answerEvents/2 && r.Header.Get("X-Wait") != "" {
			<-r.Context().Done()
			return
		}
		chunk(`{"content":"A sentence. "}`, "null")
	}
	chunk(`{}`, `"stop"`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// memory measures the memory that the process uses for an open stream, including its client and its
// upstream.
func memory(b *bytes.Buffer, peers []peer) error {
	const streams = 256
	b.WriteString(
		"\n## Memory of an open stream\n\nThe heap of the process for each of 256 streams that wait for their upstream; " +
			"the first row is the client and the upstream.\n\n| | KiB |\n|---|---|\n",
	)
	for _, p := range peers {
		before := heap()
		open, stop := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		var failed error
		for range streams {
			began := make(chan error, 1)
			waiting.Go(func() { hold(open, p.url, began) })
			failed = errors.Join(failed, <-began)
		}
		time.Sleep(300 * time.Millisecond)
		fmt.Fprintf(b, "| %s | %.0f |\n", p.name, float64(heap()-before)/streams/1024)
		stop()
		waiting.Wait()
		if failed != nil {
			return failed
		}
	}
	return nil
}

// hold opens a stream, reads its beginning, and keeps it open until ctx is done.
func hold(ctx context.Context, url string, began chan<- error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", bytes.NewReader(request(true)))
	if err != nil {
		began <- err
		return
	}
	req.Header.Set("X-Wait", "1")
	res, err := client.Do(req)
	if err != nil {
		began <- err
		return
	}
	defer res.Body.Close()
	_, err = io.ReadFull(res.Body, make([]byte, 200))
	began <- err
	<-ctx.Done()
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

func head() string {
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf(`# The gateway's figures

`+"`make bench-gateway`"+` writes this file. Compare the rows of a table: times depend on the machine and its load.

%s: %d processors, load %.4s, %s/%s, %s.
Clients, gateway and upstream are one process, which shares the processors. A request has %d KiB,
an answer %d sentences, each an event if it is streamed. The upstream answers at once. The modules
are redact, tool-policy and sentences. The rows alternate in %d rounds of %v.
`, time.Now().Format("2 January 2006"), runtime.NumCPU(), load, runtime.GOOS, runtime.GOARCH, runtime.Version(),
		requestBytes>>10, answerEvents, rounds, each)
}
