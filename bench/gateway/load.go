package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A sample holds the times of one request: to the first byte, and to the end.
type sample struct{ first, all time.Duration }

// A summary holds percentiles of times in milliseconds, and the requests per second in rate. first is
// the median time to the first byte. processor is the processor time of a request, including the
// client and the upstream.
type summary struct{ p50, p99, first, processor, rate float64 }

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
	return summary{p50: at(all, 0.5), p99: at(all, 0.99), first: at(first, 0.5)}
}

// load sends requests with a body to url with the given number of concurrent clients for a duration, and
// returns a sample of each request.
func load(url string, clients int, body []byte, duration time.Duration) ([]sample, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var out []sample
	var failed error
	var wg sync.WaitGroup
	end := time.Now().Add(duration)
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
