package main

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/machine"
	"github.com/agent-runner/agent-runner/bench/internal/process"
)

// head returns the beginning of the page.
func (c *bench) head() string {
	return fmt.Sprintf(`# The gateway's figures

`+"`make bench-gateway`"+` writes this file. Compare the rows of a table: times depend on the machine and its load.

%s: %d processors, load %s, %s/%s, %s.
Clients, gateway and upstream are one process, which shares the processors. A request is the history of a coding
agent that reads files of this repository: Go, Markdown and lists. An answer has %d sentences, each an event if it
is streamed. The upstream answers at once. The modules are redact, tool-policy and sentences. The rows alternate in
%d rounds of %v; with one client, in %d rounds of %v. A gateway that takes more than %d ms at p50 is not measured
with more clients.
%s`, time.Now().Format("2 January 2006"), runtime.NumCPU(), machine.LoadAverage(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		answerEvents, c.rounds, c.duration, c.rounds*shorter, c.duration/shorter, overloaded, c.missing)
}

// bySize measures one client with requests of several sizes.
func (c *bench) bySize(b *bytes.Buffer) error {
	b.WriteString("\n## Time added, by the size of the request\n\nOne client; milliseconds: the time added at p50, and " +
		"the added time of the processors for a request. The load of the machine changes the latter less.\nThe goal is at " +
		"most 1 ms at p50 with three Go modules, for a whole answer to a request of 50 KiB.\n\n|")
	for _, stream := range []string{"", ", streamed"} {
		for _, size := range sizes {
			fmt.Fprintf(b, " | %d KiB%s", size>>10, stream)
		}
	}
	b.WriteString(" |\n|---|---|---|---|---|---|---|\n")
	rows := make([]string, len(c.peers))
	for _, stream := range []bool{false, true} {
		for _, size := range sizes {
			all, err := c.measure(stream, size, 1, c.peers)
			if err != nil {
				return err
			}
			for i := range all {
				rows[i] += fmt.Sprintf(" %.2f, %.2f |", all[i].p50-all[0].p50, all[i].processor-all[0].processor)
			}
		}
	}
	for i, p := range c.peers[1:] {
		fmt.Fprintf(b, "| %s |%s\n", p.name, rows[i+1])
	}
	return nil
}

// overloaded is the p50 in milliseconds above which a peer is not measured with more clients.
const overloaded = 500

// byClients measures 1, 16 and 256 clients with requests of the usual size.
func (c *bench) byClients(b *bytes.Buffer, stream bool) error {
	fmt.Fprintf(b, "\n## %s, 50 KiB\n\n", map[bool]string{false: "Whole answers", true: "Streamed answers"}[stream])
	b.WriteString(
		"| | clients | requests a second | p50, ms | p99, ms | first byte p50, ms | processors, ms | added at p50, ms | " +
			"added at p99, ms |\n" +
			"|---|---|---|---|---|---|---|---|---|\n",
	)
	peers := c.peers
	for _, clients := range []int{1, 16, 256} {
		all, err := c.measure(stream, usual, clients, peers)
		if err != nil {
			return err
		}
		var left []peer
		for i, p := range peers {
			s := all[i]
			if s.p50 < overloaded {
				left = append(left, p)
			}
			fmt.Fprintf(b, "| %s | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", p.name, clients,
				s.rate, s.p50, s.p99, s.first, s.processor, s.p50-all[0].p50, s.p99-all[0].p99)
		}
		peers = left
	}
	return nil
}

// shorter divides the duration of rounds with one client, and multiplies their number.
const shorter = 4

// measure measures peers alternately, and returns a summary of each.
func (c *bench) measure(stream bool, size, clients int, peers []peer) ([]summary, error) {
	body, err := c.history.request(stream, size)
	if err != nil {
		return nil, err
	}
	rounds, duration := c.rounds, c.duration
	if clients == 1 {
		rounds, duration = rounds*shorter, duration/shorter
	}
	results := make([][]sample, len(peers))
	took, processors := make([]time.Duration, len(peers)), make([]time.Duration, len(peers))
	for range rounds {
		for i, p := range peers {
			began, used := time.Now(), process.Used()
			s, err := requests(p.url, clients, body, duration)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			results[i] = append(results[i], s...)
			took[i] += time.Since(began)
			processors[i] += process.Used() - used
		}
	}
	out := make([]summary, len(peers))
	for i := range results {
		out[i] = summarize(results[i])
		n := float64(len(results[i]))
		out[i].rate, out[i].processor = n/took[i].Seconds(), processors[i].Seconds()*1000/n
	}
	return out, nil
}

// published holds figures that other projects publish about their gateways.
const published = `
## Published figures of other gateways

As others published them, on other machines and with other requests: they only say how large such times are. None of
these gateways ran plug-ins during the measurement.

| gateway | time added | how | source |
|---|---|---|---|
| Bifrost (Go) | 0.44 and 0.62 ms at p50 | one client at a time, a mock of OpenAI on the same machine, runner of GitHub, 9 and 10 July 2026 | [cuihuan/llm-gateway-bench](https://github.com/cuihuan/llm-gateway-bench/blob/main/data/overhead.json) |
| Portkey, open source, 1.15.2 (TypeScript) | 2.37 and 2.65 ms at p50 | the same | the same |
| LiteLLM 1.91.1 (Python) | 4.34 ms at p50 | the same, 9 July 2026 | the same |
| Bifrost (Go) | 0.011 and 0.059 ms on average | the vendor's, without JSON and HTTP; requests of 0.13 KB; t3.xlarge and t3.medium, 5,000 requests a second | [docs.getbifrost.ai](https://docs.getbifrost.ai/benchmarking/getting-started) |
| TensorZero (Rust) | 0.19 ms at p50, 0.57 ms at p99 | the vendor's; c7i.xlarge, 10,000 requests a second, all on one machine | [tensorzero/tensorzero](https://github.com/tensorzero/tensorzero/blob/main/docs/gateway/benchmarks.mdx) |
| LiteLLM (Python) | 7.00 ms at p50, 66.68 ms at p99 | by TensorZero's authors; the same machine, 100 requests a second | the same |
`
