package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/load"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// A sample holds the times of one request: to the first byte, and to the end.
type sample struct{ first, all time.Duration }

// A summary holds percentiles of times in milliseconds, and the requests per second in rate. first is
// the median time to the first byte. processor is the processor time of a request, including the
// client and the upstream.
type summary struct{ p50, p99, first, processor, rate float64 }

func summarize(list []sample) summary {
	var all, first stats.Durations
	for _, s := range list {
		all, first = append(all, s.all), append(first, s.first)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return summary{p50: ms(all.At(0.5)), p99: ms(all.At(0.99)), first: ms(first.At(0.5))}
}

// requests sends requests with a body to url with the given number of concurrent clients for a duration, and
// returns a sample of each request.
func requests(url string, clients int, body []byte, duration time.Duration) ([]sample, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var out []sample
	_, _, err := load.For(clients, duration, func(int) error {
		s, err := send(client, url, body)
		mu.Lock()
		defer mu.Unlock()
		out = append(out, s)
		return err
	})
	return out, err
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
