package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// memory measures the memory that the process uses for an open stream, including its client and its
// upstream.
func (c *bench) memory(b *bytes.Buffer) error {
	const streams = 256
	b.WriteString(
		"\n## Memory of an open stream\n\nThe heap of the process for each of 256 streams that wait for their upstream; " +
			"the first row is the client and the upstream.\n\n| | KiB |\n|---|---|\n",
	)
	body, err := c.history.request(true, usual)
	if err != nil {
		return err
	}
	for _, p := range c.peers {
		before := heap()
		open, stop := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		var failed error
		for range streams {
			began := make(chan error, 1)
			waiting.Go(func() { hold(open, p.url, body, began) })
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
func hold(ctx context.Context, url string, body []byte, began chan<- error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", bytes.NewReader(body))
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
	runtime.GC() // buffers of pools are freed at the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
