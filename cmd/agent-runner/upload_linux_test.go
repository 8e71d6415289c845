package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/longtest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/fileref"
	"github.com/agent-runner/agent-runner/internal/jail"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

var allUploads = flag.Bool("all-uploads", false, "upload every spelling of a file reference, not each part of one once")

// An uploadServer is a process of agent-runner serve with two tenants.
type uploadServer struct {
	url        string
	acme, beta string // keys
	dir        string // with its database, cache and temporary files
	output     *watch
	process    *exec.Cmd
	ended      chan error
}

// startUploadServer starts a server. program is "agent-runner" or another of [programs] that
// behaves like it.
func startUploadServer(t *testing.T, program string) *uploadServer {
	t.Helper()
	s := &uploadServer{dir: t.TempDir(), output: &watch{more: make(chan struct{}, 1)}, ended: make(chan error, 1)}
	in := func(name string) string { return filepath.Join(s.dir, name) }
	for _, name := range []string{"home", "tmp", "cache", "data"} {
		require.NoError(t, os.Mkdir(in(name), 0o700))
	}
	s.process = exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--store", in("data/p.db"), "--cache-dir",
		in("cache"), "--log", "json")
	s.process.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + in("home"),
		"TMPDIR=" + in("tmp"),
		"OPENAI_API_KEY=none",
	}
	s.process.Stdout, s.process.Stderr = watchEnd{s.output, 0}, watchEnd{s.output, 1}
	require.NoError(t, s.process.Start())
	go func() { s.ended <- s.process.Wait(); close(s.ended) }()
	t.Cleanup(func() { s.stop(t) })
	require.True(t, s.output.wait("serving at ", s.ended), s.output.all.String())
	var key string
	require.Eventually(t, func() bool { // the log arrives through another pipe
		s.output.mu.Lock()
		defer s.output.mu.Unlock()
		key = strings.TrimSpace(s.output.one[0].String())
		return strings.HasSuffix(s.output.one[0].String(), "\n")
	}, time.Minute, time.Millisecond)
	s.output.mu.Lock()
	s.url = servingAt.FindStringSubmatch(s.output.one[1].String())[1]
	s.output.mu.Unlock()
	operator, err := client.New(s.url, key, nil)
	require.NoError(t, err)
	for id, to := range map[string]*string{"acme": &s.acme, "beta": &s.beta} {
		_, err := operator.CreateTenant(t.Context(), &api.CreateTenant{ID: id})
		require.NoError(t, err)
		key, err := operator.CreateKey(t.Context(), id, &api.CreateKey{Name: "first"})
		require.NoError(t, err)
		*to = key.Secret
	}
	return s
}

// stop ends the process and returns what it wrote to stderr.
func (s *uploadServer) stop(t *testing.T) string {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		_ = s.process.Process.Kill()
		t.Error("the server did not end")
	}
	return s.output.one[1].String()
}

// put uploads a module and returns the status and the body of the response.
func (s *uploadServer) put(ctx context.Context, key, query string, u fileref.Upload) (string, error) {
	r, err := http.NewRequestWithContext(ctx, "PUT", s.url+"/v1/modules"+query, bytes.NewReader(u.Body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", u.Type)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.Status + " " + string(b), err
}

func init() {
	programs["no-landlock"] = without("landlock_create_ruleset")
	programs["no-jail"] = without("landlock_create_ruleset", "seccomp")
}

// without returns the main function of the command on a kernel that lacks system calls.
func without(calls ...string) func() {
	return func() {
		if !child.IsChild() { // children have the seccomp filter of the process that started them
			filter, err := jail.DenySyscalls(calls...)
			if err != nil {
				panic(err)
			}
			if _, err := (jail.Profile{NoLandlock: true, Syscalls: filter}).Enforce(); err != nil {
				panic(err)
			}
		}
		main()
	}
}

// perRequest matches the parts of a response that differ between two equal requests.
var perRequest = regexp.MustCompile(`"instance":\s*"[^"]*"|"created":\s*"[^"]*"`)

// somePaths returns a part of all, with at least one key for each kind of reference and each spelling
// of a path.
func somePaths(all []string) (some []string) {
	seen := map[string]bool{}
	for _, key := range all {
		kind, fresh := "", false
		for i, part := range strings.Fields(key) {
			if !strings.ContainsAny(part, "0123456789") && !strings.HasPrefix(part, "secret") {
				kind += " " + part
				continue
			}
			value := fmt.Sprint(i, part)
			fresh = fresh || !seen[value]
			seen[value] = true
		}
		if fresh || !seen[kind] {
			some = append(some, key)
		}
		seen[kind] = true
	}
	return some
}

// TestUploadsReadNoFile checks that a server reads no file of its host that uploaded scripts,
// modules and manifests name: no response, log record or stored value has the content of the
// files, and the responses are the same after the files are deleted. It tests servers with the whole
// jail and without a jail; as a long test, also one without Landlock.
func TestUploadsReadNoFile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts servers")
	}
	t.Parallel()
	for program, missing := range map[string]string{"agent-runner": "", "no-landlock": "Landlock", "no-jail": "Landlock (files, TCP ports and signals), seccomp"} {
		t.Run(program, func(t *testing.T) {
			if program == "no-landlock" {
				longtest.Skip(t)
			}
			t.Parallel()
			logged := uploadReferences(t, startUploadServer(t, program), program != "no-jail")
			if missing != "" || jail.Support().Missing() == "" {
				require.Equal(t, missing != "", strings.Contains(logged, "cannot fully confine"), logged)
			}
			if missing != "" {
				require.Equal(t, 1, strings.Count(logged, `"missing":"`+missing), logged)
			}
		})
	}
}

// uploadReferences uploads modules that name files of the host. It returns what the server logged. If
// computed is false, it omits scripts that import computed paths. esbuild searches the disk for such
// paths until the child's time limit, unless a jail hides the disk.
func uploadReferences(t *testing.T, s *uploadServer, computed bool) (logged string) {
	t.Helper()
	files, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, fileref.Plant(files))
	says, err := os.ReadFile("../../testdata/modules/says.wasm")
	require.NoError(t, err)
	uploads := fileref.Modules(files, says)
	for key, text := range fileref.Scripts(files) {
		if !computed && (strings.Contains(key, "pattern") || strings.HasPrefix(key, "glob")) {
			continue
		}
		uploads["script "+key] = fileref.Upload{Type: "application/typescript", Body: []byte(text)}
	}
	keys := slices.Sorted(maps.Keys(uploads))
	if !*allUploads {
		keys = somePaths(keys)
	}
	send := func() map[string]string {
		answers := map[string]string{}
		for _, key := range keys {
			answer, err := s.put(t.Context(), s.acme, "", uploads[key])
			require.NoError(t, err, key)
			require.NotContains(t, answer, fileref.Canary, key)
			// the bundler or compiler has processed the module
			require.NotRegexp(t, "^(429|5)|took more than", answer, key)
			answers[key] = perRequest.ReplaceAllString(answer, "")
		}
		for _, name := range []string{"../../secret", files + "/secret", "file://" + files + "/secret"} {
			answer, err := s.put(t.Context(), s.acme, "?name="+name, uploads[keys[0]])
			require.NoError(t, err)
			require.Contains(t, answer, "422", name)
			answers["name "+name] = perRequest.ReplaceAllString(answer, "")
		}
		return answers
	}
	answer, err := s.put(t.Context(), s.acme, "",
		fileref.Upload{Type: "application/typescript", Body: []byte("export default { gateTool() {} };")})
	require.NoError(t, err)
	require.Contains(t, answer, "200 OK")
	existing := send()
	require.NoError(t, os.RemoveAll(files))
	missing := send()
	for key, answer := range existing {
		require.Equal(t, answer, missing[key], key)
	}
	t.Logf("%d uploads, twice", len(keys))
	logged = s.stop(t)
	require.NotContains(t, logged, fileref.Canary)
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		require.NotContains(t, string(b), fileref.Canary, path)
		return err
	}))
	return logged
}

// slowUploads returns functions that make modules, by kind. Bundling or compiling such a module
// takes as long as its time limit allows. Each n makes a different module of the kind.
func slowUploads(t *testing.T, says []byte) map[string]func(n int64) fileref.Upload {
	m, err := wasm.Decode(says, wasm.DefaultLimits())
	require.NoError(t, err)
	i := uint32(len(m.Types))
	m.Types = append(m.Types, wasm.FuncType{Params: []wasm.ValueType{wasm.I32}, Results: []wasm.ValueType{wasm.I32}})
	body := bytes.Repeat([]byte{0x20, 0, 0x20, 0, 0x6c, 0x20, 0, 0x6a, 0x21, 0}, 25_000) // n = n*n + n
	body = append(body, 0x20, 0, 0x0b)
	for range 35 {
		m.Functions, m.Code = append(m.Functions, i), append(m.Code, wasm.Code{Body: body})
	}
	costly := m.Encode()
	script := func(text string) func(int64) fileref.Upload {
		return func(n int64) fileref.Upload {
			return fileref.Upload{Type: "application/typescript", Body: fmt.Appendf(nil, "%s;\n// %d", text, n)}
		}
	}
	return map[string]func(int64) fileref.Upload{
		"conditions": script(strings.Repeat("a ? (b) : c => ", 40) + "1"), // exponential
		"array":      script("export default [" + strings.Repeat("1,", 4<<20) + "]"),
		"nested":     script(strings.Repeat("[", 3_000_000)),
		"names":      script(strings.Repeat("{let a=1;{let a=2}}", 100_000)),
		"wasm": func(n int64) fileref.Upload {
			return fileref.Upload{
				Type: "application/wasm",
				Body: append(costly[:len(costly):len(costly)], 0, 9, 1, 'n', byte(n), byte(n>>8), byte(n>>16), 0, 0, 0, 0),
			}
		},
	}
}

// TestSlowUploads measures the uploads of a tenant while another tenant repeatedly uploads the
// slowest modules and disconnects before some of them are compiled. The median must be less than 20
// times, and the maximum less than 150 times, the time without the other tenant.
func TestSlowUploads(t *testing.T) {
	longtest.Skip(t)
	s := startUploadServer(t, "agent-runner")
	says, err := os.ReadFile("../../testdata/modules/says.wasm")
	require.NoError(t, err)
	number := 0
	upload := func() time.Duration {
		number++
		began := time.Now()
		answer, err := s.put(t.Context(), s.beta, "", fileref.Upload{Type: "application/typescript",
			Body: fmt.Appendf(nil, "export default { name: 'fast%d', gateTool() {} };", number)})
		require.NoError(t, err)
		require.Contains(t, answer, "200 OK")
		return time.Since(began)
	}
	const count = 9
	measure := func() (times []time.Duration) {
		for range count {
			times = append(times, upload())
		}
		slices.Sort(times)
		return times
	}
	measure() // compiles the engine of scripts
	alone := measure()

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var accepted, slowest atomic.Int64
	var sent atomic.Int64
	for kind, slow := range slowUploads(t, says) {
		for _, patience := range []time.Duration{200 * time.Millisecond, time.Hour} {
			wg.Go(func() {
				for ctx.Err() == nil {
					ctx, leave := context.WithTimeout(ctx, patience)
					at := time.Now()
					answer, err := s.put(ctx, s.acme, "", slow(sent.Add(1)))
					leave()
					if strings.HasPrefix(answer, "429") {
						time.Sleep(250 * time.Millisecond)
						continue
					}
					accepted.Add(1)
					if err == nil {
						slowest.Store(max(slowest.Load(), int64(time.Since(at))))
					} else if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: %v", kind, err)
					}
				}
			})
		}
	}
	require.Eventually(t, func() bool { return accepted.Load() > 5 }, 2*time.Minute, 10*time.Millisecond)
	var flooded []time.Duration
	for began := time.Now(); len(flooded) < count || time.Since(began) < 20*time.Second; {
		flooded = append(flooded, upload())
	}
	slices.Sort(flooded)
	stop()
	wg.Wait()
	median, longest := flooded[len(flooded)/2], flooded[len(flooded)-1]
	t.Logf("%d slow uploads, %d accepted, one of which took %v; alone %v; during them %d, median %v, slowest %v",
		sent.Load(), accepted.Load(), time.Duration(slowest.Load()), alone, len(flooded), median, longest)
	// With one child for all tenants, the slowest upload took 25 s, 460 times as long as alone.
	require.Less(t, median, 20*alone[count/2], "median")
	require.Less(t, longest, 150*alone[count/2], "slowest")
}
