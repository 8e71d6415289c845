package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// workers is the number of concurrent runs.
const workers = 8

// run runs an agent of the tenant t once and reads all events of the run. It fails unless the run
// ends with an answer.
func (p *platform) run(t *tenant, agent string) error {
	req, err := http.NewRequest(
		"POST",
		p.url+"/v1/runs",
		bytes.NewReader(fmt.Appendf(nil, `{"agent":%q,"input":"Do it."}`, agent)),
	)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+t.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("a run of %s: status %d: %.300s", agent, res.StatusCode, b)
	}
	if !bytes.Contains(b, []byte(`"finish_reason":"stop"`)) {
		return fmt.Errorf("a run of %s did not finish: %.600s", agent, b[max(0, len(b)-600):])
	}
	return nil
}

// A sample holds the measurements of a load.
type sample struct {
	times     []time.Duration // one duration per run
	took      time.Duration
	processor time.Duration // processor time of the server
}

func (s *sample) perSecond() float64 { return float64(len(s.times)) / s.took.Seconds() }

// busy returns the processor time of the server in percent of one processor.
func (s *sample) busy() float64 { return 100 * s.processor.Seconds() / s.took.Seconds() }

// at returns the quantile q, from 0 to 1, of the times, or 0 if there are no times.
func (s *sample) at(q float64) time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	slices.Sort(s.times)
	return s.times[min(len(s.times)-1, int(q*float64(len(s.times))))]
}

// load runs the agents of the given name for the duration d, with the given number of concurrent
// workers. It alternates between the tenants. load stops early if a run fails, and returns the time
// of each run.
func (p *platform) load(list []*tenant, agent string, workers int, d time.Duration) (*sample, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	out := &sample{}
	began, ran := time.Now(), p.processor()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Since(began) < d {
				t := list[int(next.Add(1))%len(list)]
				at := time.Now()
				err := p.run(t, agent)
				took := time.Since(at)
				mu.Lock()
				out.times = append(out.times, took)
				failed = errors.Join(failed, err)
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	out.took, out.processor = time.Since(began), p.processor()-ran
	return out, failed
}

// steady starts perSecond runs per second for the duration d, even while earlier runs are active. It
// runs the agents of the given name, and alternates between the tenants. It returns the time of each
// run from its scheduled start.
func (p *platform) steady(list []*tenant, agent string, perSecond float64, d time.Duration) (*sample, error) {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	out := &sample{}
	began, ran := time.Now(), p.processor()
	for i := range int(perSecond * d.Seconds()) {
		at := began.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		time.Sleep(time.Until(at))
		wg.Go(func() {
			err := p.run(list[i%len(list)], agent)
			took := time.Since(at)
			mu.Lock()
			defer mu.Unlock()
			out.times = append(out.times, took)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	out.took, out.processor = time.Since(began), p.processor()-ran
	return out, failed
}

// each runs the agent of the given name once for each tenant. At most workers runs are concurrent.
func (p *platform) each(list []*tenant, agent string) error {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	slots := make(chan struct{}, workers)
	for _, t := range list {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			err := p.run(t, agent)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return failed
}

// throughput measures runs per second by the number of modules and of tenants, and writes a table
// to text.
func throughput(p *plan, s *platform, text *bytes.Buffer) error {
	list, err := s.tenants("tenant-", slices.Max(p.tenants), "quick", p.modules...)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		text,
		"## Runs\n\n%d concurrent runs, of the tenants in turn. Processor is the server's processor time for each run.\n\n"+
			"| modules | tenants | runs per second | p50 | p99 | processor |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n",
		workers,
	)
	for _, modules := range p.modules {
		for _, tenants := range p.tenants {
			agent := agentOf("quick", modules)
			if err := s.each(list[:tenants], agent); err != nil { // builds the agents and fills the caches
				return err
			}
			got, err := s.load(list[:tenants], agent, workers, p.each)
			if err != nil {
				return err
			}
			fmt.Fprintf(
				text,
				"| %d | %s | %.0f | %s | %s | %s |\n",
				modules,
				count(tenants),
				got.perSecond(),
				ms(got.at(0.5)),
				ms(got.at(0.99)),
				ms(got.processor/time.Duration(len(got.times))),
			)
		}
	}
	text.WriteString("\n")
	return nil
}

func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}

func count(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

func size(bytes int64) string {
	if bytes < 10<<10 {
		return fmt.Sprintf("%.1f KB", float64(bytes)/1024)
	}
	if bytes < 10<<20 {
		return fmt.Sprintf("%d KB", bytes>>10)
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}

// lines calls fn for each line of a stream until fn returns false.
func lines(r io.Reader, fn func([]byte) bool) {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		if !fn(scan.Bytes()) {
			return
		}
	}
}
