package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A platform is the server process under test.
type platform struct {
	cmd      *exec.Cmd
	dir      string
	url      string
	operator string
	wasm     []byte
	client   *http.Client
}

var servingAt = regexp.MustCompile(`http://[0-9.:\[\]]+[0-9]`)

// startPlatform starts a server with an empty store and returns it. env is added to the environment
// of the server.
func startPlatform(program string, wasm []byte, model string, env ...string) (*platform, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-server")
	if err != nil {
		return nil, err
	}
	p := &platform{
		dir:    dir,
		wasm:   wasm,
		client: &http.Client{Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096}},
	}
	p.cmd = exec.Command(
		program,
		"serve",
		"--listen",
		"127.0.0.1:0",
		"--store",
		filepath.Join(dir, "platform.db"),
		"--cache-dir",
		filepath.Join(dir, "cache"),
		"--log",
		"off",
	)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+model, "OPENAI_API_KEY=none")
	p.cmd.Env = append(p.cmd.Env, env...)
	said, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	key, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(said)
	for p.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			p.close()
			return nil, fmt.Errorf("%s serve ended: %w", program, err)
		}
		p.url = servingAt.FindString(line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	shown, err := bufio.NewReader(key).ReadString('\n')
	if err != nil {
		p.close()
		return nil, err
	}
	p.operator = strings.TrimSpace(shown)
	return p, nil
}

func (p *platform) close() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ended := time.AfterFunc(40*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	ended.Stop()
	_ = os.RemoveAll(p.dir)
}

// resident returns the server's resident memory in bytes.
func (p *platform) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// tick is the unit of processor times in Linux's /proc.
const tick = 10 * time.Millisecond

// processor returns the server's processor time, including children that have ended.
func (p *platform) processor() (took time.Duration) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the program's name before it may contain any character
	fields := strings.Fields(rest)
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(field, 10, 64)
		took += time.Duration(n) * tick
	}
	return took
}

// send sends a request, and decodes the JSON response into out unless out is nil. It fails if the
// status is not want.
func (p *platform) send(method, path, key, kind string, body []byte, want int, out any) error {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != want {
		return fmt.Errorf("%s %s: status %d: %.300s", method, path, res.StatusCode, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func (p *platform) json(method, path, key string, body any, want int, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return p.send(method, path, key, "application/json", b, want, out)
}

// A tenant is a tenant of the platform with its key.
type tenant struct{ id, key string }

// tenant creates a tenant with a quota and a key, and returns it. The tenant's policy allows all
// models and all grants.
func (p *platform) tenant(id string, quota map[string]int64) (*tenant, error) {
	all := map[string]any{"models": []string{"*"}, "grants": []string{"*"}}
	create := map[string]any{"id": id, "quota": quota, "policy": all}
	if err := p.json("POST", "/v1/tenants", p.operator, create, 201, nil); err != nil {
		return nil, err
	}
	var key struct{ Secret string }
	err := p.json("POST", "/v1/tenants/"+id+"/keys", p.operator, map[string]any{"name": "bench"}, 201, &key)
	return &tenant{id, key.Secret}, err
}

// tenants creates n tenants, calls [platform.populate] for each, and returns them.
func (p *platform) tenants(prefix string, n int, model string, modules ...int) ([]*tenant, error) {
	out := make([]*tenant, n)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	slots := make(chan struct{}, 4)
	for i := range out {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t, err := p.tenant(fmt.Sprint(prefix, i), nil)
			if err == nil {
				err = p.populate(t, model, modules)
			}
			mu.Lock()
			defer mu.Unlock()
			if out[i] = t; err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return out, failed
}

// populate adds agents that use the model to a tenant, one for each element of modules, which is
// the agent's number of modules. If an agent has modules, populate first uploads the guest.
func (p *platform) populate(t *tenant, model string, modules []int) error {
	for _, n := range modules {
		if n > 0 {
			if err := p.send("PUT", "/v1/modules?name=look&version=1", t.key, "application/wasm", p.wasm, 200, nil); err != nil {
				return err
			}
			break
		}
	}
	for _, n := range modules {
		if err := p.send("PUT", "/v1/agents/"+agentOf(model, n), t.key, "application/yaml", agentFile(model, n), 200, nil); err != nil {
			return err
		}
	}
	return nil
}

func agentOf(model string, modules int) string { return fmt.Sprint(model, "-", modules) }

func agentFile(model string, modules int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "model: {name: %s}\n", model)
	if modules > 0 {
		b.WriteString("middlewares:\n")
	}
	for i := range modules {
		fmt.Fprintf(&b, "  - {name: look-%d, module: look, config: {at: all}}\n", i)
	}
	return b.Bytes()
}
