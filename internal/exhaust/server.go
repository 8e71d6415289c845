package exhaust

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A Server is `agent-runner serve` as a process with a hard memory limit.
type Server struct {
	Program string // path of the agent-runner command
	Dir     string // directory for database, cache and log
	Model   string // address of the operator's model
	Memory  int64  // memory limit in bytes, above which the kernel kills the process
	Args    []string

	url      string
	operator string // API key of the operator
	group    *cgroup
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process has exited
	err      error         // the process's error, after it has exited
	client   *http.Client
}

var serverCount atomic.Int64

// Start starts the process, or starts it again on the same data.
func (s *Server) Start() error {
	var err error
	if s.group == nil {
		if s.group, err = newCgroup(fmt.Sprintf("agent-runner-exhaust-%d-%d", os.Getpid(), serverCount.Add(1)), s.Memory); err != nil {
			return err
		}
	}
	if s.url == "" {
		if s.url, err = freeAddress(); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(
		[]string{
			"-c",
			`echo $$ > "$0" && exec "$@"`,
			s.group.procs,
			s.Program,
			"serve",
			"--listen",
			strings.TrimPrefix(s.url, "http://"),
			"--store",
			filepath.Join(s.Dir, "platform.db"),
			"--cache-dir",
			filepath.Join(s.Dir, "cache"),
		},
		s.Args...)
	s.cmd = exec.Command("/bin/sh", args...)
	s.cmd.Dir, s.cmd.Stderr = s.Dir, log
	s.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+s.Model, "OPENAI_API_KEY=none", "TMPDIR="+s.Dir)
	key, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer key.Close()
	s.cmd.Stdout = stdout
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	err = s.cmd.Start()
	_ = stdout.Close()
	if err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.ready(time.Minute); err != nil {
		return err
	}
	if s.operator == "" {
		line, err := bufio.NewReader(key).ReadString('\n')
		if err != nil {
			return fmt.Errorf("read the operator's key: %w", err)
		}
		s.operator = strings.TrimSpace(line)
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return "http://" + l.Addr().String(), nil
}

// ready waits until /readyz answers with status 200. It fails if the process ends or the timeout
// has passed.
func (s *Server) ready(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.ended:
			return s.Alive()
		default:
		}
		if res, err := s.client.Get(s.url + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("the server was not ready within %v\n%s", timeout, s.log())
}

// Alive returns an error if the process has ended.
func (s *Server) Alive() error {
	select {
	case <-s.ended:
		return fmt.Errorf("the server has ended: %w\n%s", cmp.Or(s.err, errors.New("with status 0")), s.log())
	default:
		return nil
	}
}

// log returns the end of the server's log.
func (s *Server) log() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "server.log"))
	return string(b[max(0, len(b)-4<<10):])
}

// Kill kills the process and waits until it has exited.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Close terminates the process, kills it if it has not exited after 50 s, and removes its cgroup.
func (s *Server) Close() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(50 * time.Second):
		s.Kill()
	}
	s.group.remove()
	var exit *exec.ExitError
	if errors.As(s.err, &exit) && exit.ExitCode() != 1 { // 1: the server could not release a run in time
		return fmt.Errorf("the server ended with %w\n%s", s.err, s.log())
	}
	return nil
}

// memory returns a field of the process's status in bytes, such as VmRSS, or 0 if it is unknown.
func (s *Server) memory(name string) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// disk returns the size of the server's database in bytes, including its write-ahead log.
func (s *Server) disk() (bytes int64) {
	for _, name := range []string{"platform.db", "platform.db-wal"} {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// A statusError is a response with an unexpected status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.status, e.text) }

// status returns the status of the response in err, or 0 if err does not contain a response.
func status(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return 0
}

// request sends a request. The caller closes the response's body.
func (s *Server) request(ctx context.Context, method, path, key string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(path, "/v1/modules"):
		req.Header.Set("Content-Type", "application/wasm")
	case strings.HasPrefix(path, "/v1/agents/") && method == http.MethodPut:
		req.Header.Set("Content-Type", "application/yaml")
	}
	return s.client.Do(req)
}

// call sends a request and decodes the response into out, unless out is nil. The error wraps a
// *statusError if the status is 300 or above.
func (s *Server) call(ctx context.Context, method, path, key string, in, out any) error {
	body, ok := in.([]byte)
	if !ok && in != nil {
		body = encode(in)
	}
	res, err := s.request(ctx, method, path, key, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %w", method, path, &statusError{res.StatusCode, string(b)})
	case out == nil:
		return nil
	}
	return json.Unmarshal(b, out)
}

// A tenant makes requests to the server with the API key of one tenant.
type tenant struct {
	server  *Server
	id, key string
}

// quotas are the quotas of docs/platform.md for an unknown tenant.
var quotas = map[string]int64{
	"concurrent_runs":     4,
	"runs_per_day":        1000,
	"tokens_per_day":      1e6,
	"fuel_per_day":        1e12,
	"modules":             50,
	"storage_bytes":       256 << 20,
	"value_bytes":         16 << 20,
	"upload_bytes":        8 << 20,
	"input_bytes":         1 << 20,
	"concurrent_requests": 64,
	"requests_per_minute": 1200,
}

// tenant creates a tenant and its API key. If quota is nil, the tenant has no quotas.
func (s *Server) tenant(ctx context.Context, id string, quota map[string]int64) (*tenant, error) {
	in := map[string]any{
		"id":     id,
		"quota":  quota,
		"policy": map[string]any{"models": []string{"*"}, "grants": []string{"*"}},
	}
	if err := s.call(ctx, "POST", "/v1/tenants", s.operator, in, nil); err != nil {
		return nil, err
	}
	var key struct{ Secret string }
	err := s.call(ctx, "POST", "/v1/tenants/"+id+"/keys", s.operator, map[string]any{"name": "exhaust"}, &key)
	return &tenant{s, id, key.Secret}, err
}

// put uploads the module, unless wasm is nil, and stores an agent file.
func (t *tenant) put(ctx context.Context, agent string, file, wasm []byte) error {
	if wasm != nil {
		if err := t.server.call(ctx, "PUT", "/v1/modules?name=glutton&version=1", t.key, wasm, nil); err != nil {
			return err
		}
	}
	return t.server.call(ctx, "PUT", "/v1/agents/"+agent, t.key, file, nil)
}

// A run is the API's representation of a run.
type run struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	FinishReason string `json:"finish_reason"`
	Output       string `json:"output"`
	Error        string `json:"error"`
	LastEvent    int64  `json:"last_event"`
	JournalBytes int64  `json:"journal_bytes"`
}

// start starts a run of an agent with the input "Go." and returns its state.
func (t *tenant) start(ctx context.Context, agent string) (*run, error) {
	out := &run{}
	return out, t.server.call(ctx, "POST", "/v1/runs", t.key, map[string]any{"agent": agent, "input": "Go."}, out)
}

// run fetches the current state of a run.
func (t *tenant) run(ctx context.Context, id string) (*run, error) {
	out := &run{}
	return out, t.server.call(ctx, "GET", "/v1/runs/"+id, t.key, nil, out)
}

// finish starts a run and polls it until it has ended or paused.
func (t *tenant) finish(ctx context.Context, agent string) (*run, error) {
	r, err := t.start(ctx, agent)
	for err == nil && (r.Status == "running" || r.Status == "queued") {
		time.Sleep(2 * time.Millisecond)
		r, err = t.run(ctx, r.ID)
	}
	return r, err
}
