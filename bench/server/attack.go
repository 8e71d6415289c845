package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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
	// One at a time for each processor: what a platform is like that is not full.
	load := func() (*sample, error) { return s.load(list, agent, 2, p.each/3) }
	if _, err := load(); err != nil {
		return err
	}
	fmt.Fprintf(text, "## A hostile tenant\n\nRuns with %d modules of %d tenants, two at once, while another tenant uploads what the catalogue of hostile modules has, runs modules that fault and that "+
		"use up their time, floods the server with requests, sends bodies of 8 MB, stalls uploads and reads no events; and, by turns, while it stands still. "+
		"There were %d turns of %v each.\n\n| the hostile tenant's quota | runs a second, without and with it | p50 | p99, without and with it | ratio of p99 |\n| --- | ---: | ---: | ---: | ---: |\n", modules, tenants, p.rounds, p.each/3)
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
		fmt.Fprintf(text, "| %s | %.0f, %.0f | %s, %s | %s, %s | %.2f |\n", quota.name, quiet.perSecond(), loud.perSecond(),
			ms(quiet.at(0.5)), ms(loud.at(0.5)), ms(quiet.at(0.99)), ms(loud.at(0.99)), loud.at(0.99).Seconds()/quiet.at(0.99).Seconds())
	}
	text.WriteString("\n")
	return nil
}

// besides measures a load by turns without the hostile tenant, whose process stands
// still, and with it.
func (p *platform) besides(much *plan, evil *tenant, guest string, load func() (*sample, error)) (quiet, loud *sample, err error) {
	cmd, err := self(p.url, evil.key, guest)
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
			settle time.Duration // until what it began has come to its end, or it is at work
			to     *sample
		}{{syscall.SIGSTOP, 2 * time.Second, quiet}, {syscall.SIGCONT, 500 * time.Millisecond, loud}} {
			if err := cmd.Process.Signal(turn.signal); err != nil {
				return nil, nil, err
			}
			time.Sleep(turn.settle)
			got, err := load()
			if err != nil {
				return nil, nil, err
			}
			turn.to.times = append(turn.to.times, got.times...)
			turn.to.took += got.took
		}
	}
	return quiet, loud, nil
}

// attackUntilKilled is the hostile tenant.
func attackUntilKilled(address, key, guest string) {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p := &platform{url: address, wasm: wasm, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 30 * time.Second}}
	t := &tenant{"mallory", key}
	_ = p.furnish(t, "quick", []int{0, 10})
	for _, script := range []struct{ name, code string }{
		{"spins", `export default { name: "spins", afterModel() { for (;;) {} } };`},
		{"throws", `export default { name: "throws", beforeModel() { throw new Error("x".repeat(100000)); } };`},
		{"logs", `export default { name: "logs", beforeModel(_, ctx) { for (;;) ctx.log.info("x".repeat(10000)); } };`},
		{"grows", `export default { name: "grows", beforeModel() { const all = []; for (;;) all.push("x".repeat(100000) + all.length); } };`},
	} {
		_ = p.send("PUT", "/v1/modules?name="+script.name+"&version=1", key, "application/javascript", []byte(script.code), 200, nil)
		_ = p.send("PUT", "/v1/agents/"+script.name, key, "application/yaml", fmt.Appendf(nil, "model: {name: quick}\nmiddlewares: [{module: %s, on_fault: skip}]\n", script.name), 200, nil)
	}
	forever := func(n int, fn func(i int)) {
		for range n {
			go func() {
				for i := 0; ; i++ {
					fn(i)
				}
			}()
		}
	}
	uploads := hostile.Cases()
	forever(4, func(i int) {
		_ = p.send("PUT", "/v1/modules", key, "application/wasm", uploads[i%len(uploads)].Module(), 200, nil)
	})
	agents := []string{"spins", "throws", "logs", "grows", "quick-10", "quick-0"}
	forever(16, func(i int) { _ = p.run(t, agents[i%len(agents)]) })
	forever(4, func(i int) { _ = p.send("GET", fmt.Sprint("/v1/runs?limit=500&agent=", i), key, "", nil, 200, nil) })
	forever(4, func(i int) { _ = p.send("GET", "/v1/keys", fmt.Sprint("ar_", i), "", nil, 200, nil) })
	body := []byte(`{"agent":"quick-0","input":"x","metadata":{"a":[` + strings.Repeat(`{"a":0},`, 1<<20-20) + `0]}}`)
	forever(2, func(int) {
		_ = p.send("POST", "/v1/runs", key, "application/json", body[:min(len(body), 8<<20)], 202, nil)
	})
	forever(2, func(i int) {
		_ = p.send("PUT", fmt.Sprint("/v1/agents/many-", i%50), key, "application/yaml", fmt.Appendf(agentFile("quick", 10), "# %d\n", i), 200, nil)
	})
	stall := func(text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			return
		}
		_, _ = io.WriteString(conn, text)
		time.Sleep(20 * time.Second)
		_ = conn.Close()
	}
	head := " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
	forever(100, func(int) { stall("GET /healthz HTTP/1.1\r\nX: ") })
	forever(50, func(int) { stall("PUT /v1/modules" + head + "Content-Length: 1000000\r\n\r\nx") })
	forever(50, func(int) {
		run := `{"agent":"quick-0","input":"x"}`
		stall(fmt.Sprintf("POST /v1/runs%sContent-Length: %d\r\n\r\n%s", head, len(run), run))
	})
	select {}
}
