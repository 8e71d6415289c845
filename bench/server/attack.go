package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/apiclient"
	"github.com/agent-runner/agent-runner/internal/hostile"
)

// mallory is the hostile tenant of a platform.
type mallory struct {
	*tenant
	http *http.Client
}

// request sends a request with a key, and reads the response, whatever it is.
func (m *mallory) request(method, path, key, kind string, body []byte) {
	req, err := http.NewRequest(method, m.Server()+path, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	res, err := m.http.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// attacks holds the hostile tenant's attacks, which run concurrently and without end. The attack with
// runs starts first, because it needs modules and agents and the other attacks use up the tenant's
// requests.
var attacks = []struct {
	name  string
	start func(m *mallory)
}{
	{"runs", (*mallory).runs},
	{"uploads", (*mallory).upload},
	{"floods", (*mallory).flood},
	{"bodies", (*mallory).bodies},
	{"agents", (*mallory).agents},
	{"stalls", (*mallory).stall},
}

// attackUntilKilled attacks a server until this process is killed. ways lists the names of the
// attacks, separated by commas; if it is empty, all attacks are used.
func attackUntilKilled(address, key, guest, ways string) {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 30 * time.Second}
	c, err := apiclient.New(h, address, key)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m := &mallory{&tenant{c, "mallory"}, h}
	_ = m.populate(wasm, "quick", []int{0, 10})
	for _, attack := range attacks {
		if ways == "" || slices.Contains(strings.Split(ways, ","), attack.name) {
			attack.start(m)
		}
	}
	select {}
}

// forever starts n goroutines, each of which calls fn in an endless loop with the loop's counter.
func forever(n int, fn func(i int)) {
	for range n {
		go func() {
			for i := 0; ; i++ {
				fn(i)
			}
		}()
	}
}

// upload uploads the hostile modules of internal/hostile.
func (m *mallory) upload() {
	cases := hostile.Cases()
	forever(4, func(i int) {
		m.request("PUT", "/v1/modules", m.Key(), "application/wasm", cases[i%len(cases)].Module())
	})
}

// runs repeatedly runs modules that exhaust their limits, an agent with ten modules, and one
// without modules.
func (m *mallory) runs() {
	for _, script := range []struct{ name, code string }{
		{"spins", `export default { name: "spins", afterModel() { for (;;) {} } };`},
		{"throws", `export default { name: "throws", beforeModel() { throw new Error("x".repeat(100000)); } };`},
		{"logs", `export default { name: "logs", beforeModel(_, ctx) { for (;;) ctx.log.info("x".repeat(10000)); } };`},
		{"grows", `export default { name: "grows", beforeModel() { const all = []; for (;;) all.push("x".repeat(100000) + all.length); } };`},
	} {
		path := "/v1/modules?name=" + script.name + "&version=1"
		m.request("PUT", path, m.Key(), "application/javascript", []byte(script.code))
		file := fmt.Appendf(nil, "model: {name: quick}\nmiddlewares: [{module: %s, on_fault: skip}]\n", script.name)
		_, _ = m.PutAgent(context.Background(), script.name, file)
	}
	agents := []string{"spins", "throws", "logs", "grows", "quick-10", "quick-0"}
	forever(16, func(i int) { _ = m.Run(context.Background(), agents[i%len(agents)]) })
}

// flood requests long lists, and sends invalid keys.
func (m *mallory) flood() {
	forever(4, func(i int) { m.request("GET", fmt.Sprint("/v1/runs?limit=500&agent=", i), m.Key(), "", nil) })
	forever(4, func(int) { m.request("GET", "/v1/runs?limit=500", m.Key(), "", nil) })
	forever(4, func(i int) { m.request("GET", "/v1/keys", fmt.Sprint("ar_", i), "", nil) })
}

// bodies sends large request bodies.
func (m *mallory) bodies() {
	for _, size := range []int{8 << 20, 1 << 20} { // the limits of the API, and of a tenant without a quota
		for _, body := range []string{
			`{"agent":"quick-0","input":"x","metadata":{"a":[` + strings.Repeat(`{"a":0},`, size/8-20) + `0]}}`,
			`{"agent":"quick-0","messages":[{"role":"user","content":"` + strings.Repeat("x", size-100) + `"}]}`,
		} {
			forever(2, func(int) { m.request("POST", "/v1/runs", m.Key(), "application/json", []byte(body)) })
		}
	}
}

// agents uploads agents with different content each time.
func (m *mallory) agents() {
	forever(2, func(i int) {
		file := fmt.Appendf(agentFile("quick", 10), "# %d\n", i)
		_, _ = m.PutAgent(context.Background(), fmt.Sprint("many-", i%50), file)
	})
}

// stall sends incomplete requests, and requests whose response it never reads.
func (m *mallory) stall() {
	stalled := func(text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(m.Server(), "http://"))
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			return
		}
		_, _ = io.WriteString(conn, text)
		time.Sleep(20 * time.Second)
		_ = conn.Close()
	}
	head := " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + m.Key() + "\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
	forever(100, func(int) { stalled("GET /healthz HTTP/1.1\r\nX: ") })
	forever(50, func(int) { stalled("PUT /v1/modules" + head + "Content-Length: 1000000\r\n\r\nx") })
	forever(50, func(int) {
		run := `{"agent":"quick-0","input":"x"}`
		stalled(fmt.Sprintf("POST /v1/runs%sContent-Length: %d\r\n\r\n%s", head, len(run), run))
	})
}
