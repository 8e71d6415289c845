package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/internal/hostile"
)

// modest is the quota that docs/platform.md names for tenants that nobody knows.
var modest = map[string]int64{"concurrent_runs": 4, "requests_per_minute": 1200, "modules": 50, "storage_bytes": 256 << 20, "upload_bytes": 8 << 20, "concurrent_requests": 64}

// hostility measures what a hostile tenant does to the runs of others.
func hostility(p *plan, s *platform, text *bytes.Buffer) error {
	const tenants, modules = 10, 3
	list, err := s.tenants("good-", tenants, "quick", modules)
	if err != nil {
		return err
	}
	guest, err := os.CreateTemp("", "guest-*.wasm")
	if err != nil {
		return err
	}
	defer os.Remove(guest.Name())
	if _, err := guest.Write(s.wasm); err != nil {
		return err
	}
	_ = guest.Close()
	agent := agentOf("quick", modules)
	if err := s.each(list, agent); err != nil {
		return err
	}
	most, err := s.load(list, agent, workers, p.each)
	if err != nil {
		return err
	}
	rate := max(1, math.Round(most.perSecond()/3))
	load := func() (*sample, error) { return s.steady(list, agent, rate, p.each/3) }
	fmt.Fprintf(text, "## A hostile tenant\n\nRuns with %d modules of %d tenants begin by the clock, %.0f a second, which is a third of the most that this machine did with nobody else there. "+
		"The time of each counts from when it was to begin, so that none waits unseen. Another tenant uploads what the catalogue of hostile modules has, runs modules that fault and that "+
		"use up their time, floods the server with requests, sends bodies of 8 MB and of 1 MB, stalls uploads and reads no events; by turns it does so, and stands still. "+
		"What sends all that, at the lowest priority, and the model share the processors with the server. "+
		"There were %d turns of %v each. Processor is what the server had of them, where %d00 %% is all there is.\n\n"+
		"| the hostile tenant's quota | p50, without and with it | p99, without and with it | ratio of p99 | processor, without and with it |\n| --- | ---: | ---: | ---: | ---: |\n",
		modules, tenants, rate, p.rounds, p.each/3, runtime.NumCPU())
	for i, quota := range []struct {
		name string
		of   map[string]int64
	}{{"as [platform.md](platform.md#quotas) names it", modest}, {"none", nil}} {
		evil, err := s.tenant(fmt.Sprint("mallory-", i), quota.of)
		if err != nil {
			return err
		}
		quiet, loud, err := s.besides(p, evil, guest.Name(), load)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "| %s | %s, %s | %s, %s | %.2f | %.0f %%, %.0f %% |\n", quota.name, ms(quiet.at(0.5)), ms(loud.at(0.5)),
			ms(quiet.at(0.99)), ms(loud.at(0.99)), loud.at(0.99).Seconds()/quiet.at(0.99).Seconds(), quiet.busy(), loud.busy())
	}
	text.WriteString("\n")
	return nil
}

// besides measures a load by turns without the hostile tenant, whose process stands
// still, and with it.
func (p *platform) besides(much *plan, evil *tenant, guest string, load func() (*sample, error)) (quiet, loud *sample, err error) {
	cmd, err := self(p.url, evil.key, guest, much.attacks)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	time.Sleep(5 * time.Second) // its modules are brought
	quiet, loud = &sample{}, &sample{}
	for range much.rounds {
		for _, turn := range []struct {
			signal os.Signal
			settle func()
			to     *sample
		}{{syscall.SIGSTOP, p.rest, quiet}, {syscall.SIGCONT, func() { time.Sleep(time.Second) }, loud}} {
			if err := cmd.Process.Signal(turn.signal); err != nil {
				return nil, nil, err
			}
			turn.settle()
			got, err := load()
			if err != nil {
				return nil, nil, err
			}
			turn.to.times = append(turn.to.times, got.times...)
			turn.to.took += got.took
			turn.to.processor += got.processor
		}
	}
	return quiet, loud, nil
}

// rest waits until the server has little to do any more: what was begun goes on for a
// while, and a time that is to be without it would not be.
func (p *platform) rest() {
	const look, most = 250 * time.Millisecond, 30 * time.Second
	for began := time.Now(); time.Since(began) < most; {
		before := p.processor()
		time.Sleep(look)
		if p.processor()-before <= look/10 {
			return
		}
	}
}

// A mallory is the hostile tenant.
type mallory struct {
	*platform
	*tenant
}

// attacks are what it does, all at once and without end.
var attacks = map[string]func(m *mallory){
	"uploads": (*mallory).upload,
	"runs":    (*mallory).runs,
	"floods":  (*mallory).flood,
	"bodies":  (*mallory).bodies,
	"agents":  (*mallory).agents,
	"stalls":  (*mallory).stall,
}

// attackUntilKilled attacks in the ways that are named; all when none is.
func attackUntilKilled(address, key, guest, ways string) {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m := &mallory{&platform{url: address, wasm: wasm, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 30 * time.Second}}, &tenant{"mallory", key}}
	_ = m.furnish(m.tenant, "quick", []int{0, 10})
	for name, attack := range attacks {
		if ways == "" || slices.Contains(strings.Split(ways, ","), name) {
			attack(m)
		}
	}
	select {}
}

// forever does something again and again, n times at once.
func forever(n int, fn func(i int)) {
	for range n {
		go func() {
			for i := 0; ; i++ {
				fn(i)
			}
		}()
	}
}

// upload uploads the catalogue of hostile modules.
func (m *mallory) upload() {
	cases := hostile.Cases()
	forever(4, func(i int) {
		_ = m.send("PUT", "/v1/modules", m.key, "application/wasm", cases[i%len(cases)].Module(), 200, nil)
	})
}

// runs runs modules that do all that they can, and many that do nothing.
func (m *mallory) runs() {
	for _, script := range []struct{ name, code string }{
		{"spins", `export default { name: "spins", afterModel() { for (;;) {} } };`},
		{"throws", `export default { name: "throws", beforeModel() { throw new Error("x".repeat(100000)); } };`},
		{"logs", `export default { name: "logs", beforeModel(_, ctx) { for (;;) ctx.log.info("x".repeat(10000)); } };`},
		{"grows", `export default { name: "grows", beforeModel() { const all = []; for (;;) all.push("x".repeat(100000) + all.length); } };`},
	} {
		_ = m.send("PUT", "/v1/modules?name="+script.name+"&version=1", m.key, "application/javascript", []byte(script.code), 200, nil)
		_ = m.send("PUT", "/v1/agents/"+script.name, m.key, "application/yaml", fmt.Appendf(nil, "model: {name: quick}\nmiddlewares: [{module: %s, on_fault: skip}]\n", script.name), 200, nil)
	}
	agents := []string{"spins", "throws", "logs", "grows", "quick-10", "quick-0"}
	forever(16, func(i int) { _ = m.run(m.tenant, agents[i%len(agents)]) })
}

// flood asks for long lists, and with keys that there are not.
func (m *mallory) flood() {
	forever(4, func(i int) { _ = m.send("GET", fmt.Sprint("/v1/runs?limit=500&agent=", i), m.key, "", nil, 200, nil) })
	forever(4, func(int) { _ = m.send("GET", "/v1/runs?limit=500", m.key, "", nil, 200, nil) })
	forever(4, func(i int) { _ = m.send("GET", "/v1/keys", fmt.Sprint("ar_", i), "", nil, 200, nil) })
}

// bodies sends giant ones.
func (m *mallory) bodies() {
	for _, size := range []int{8 << 20, 1 << 20} { // of the API, and of a tenant whose quota says nothing
		for _, body := range []string{
			`{"agent":"quick-0","input":"x","metadata":{"a":[` + strings.Repeat(`{"a":0},`, size/8-20) + `0]}}`,
			`{"agent":"quick-0","messages":[{"role":"user","content":"` + strings.Repeat("x", size-100) + `"}]}`,
		} {
			forever(2, func(int) {
				_ = m.send("POST", "/v1/runs", m.key, "application/json", []byte(body), 202, nil)
			})
		}
	}
}

// agents puts agents that are never the same.
func (m *mallory) agents() {
	forever(2, func(i int) {
		_ = m.send("PUT", fmt.Sprint("/v1/agents/many-", i%50), m.key, "application/yaml", fmt.Appendf(agentFile("quick", 10), "# %d\n", i), 200, nil)
	})
}

// stall begins requests that do not go on, and reads no answers.
func (m *mallory) stall() {
	stalled := func(text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			return
		}
		_, _ = io.WriteString(conn, text)
		time.Sleep(20 * time.Second)
		_ = conn.Close()
	}
	head := " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + m.key + "\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
	forever(100, func(int) { stalled("GET /healthz HTTP/1.1\r\nX: ") })
	forever(50, func(int) { stalled("PUT /v1/modules" + head + "Content-Length: 1000000\r\n\r\nx") })
	forever(50, func(int) {
		run := `{"agent":"quick-0","input":"x"}`
		stalled(fmt.Sprintf("POST /v1/runs%sContent-Length: %d\r\n\r\n%s", head, len(run), run))
	})
}
