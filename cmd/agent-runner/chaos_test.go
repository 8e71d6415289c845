package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/run"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// The chaos tests kill processes that run agents, at journal writes and at random times,
// and resume the runs in other processes until each has ended. The test process counts
// the effects.
var (
	chaosKills = flag.Int("kills", 24, "how many processes are killed, for each kind of store")
	chaosSeed  = flag.Uint64("seed", 0, "of what is random; 0: another one each time")
)

// envCrashing names the environment variable that makes the test binary run as an agent-runner that
// kills itself at a journal write. The value is "before:N" or "after:N" for write N. With any other
// value, such as "never", the process does not kill itself.
const envCrashing = "AGENT_RUNNER_TEST_MORTAL"

func crashingMain() {
	if code, ok := host.CompileChildMain(); ok {
		os.Exit(code)
	}
	where, number, _ := strings.Cut(os.Getenv(envCrashing), ":")
	at, _ := strconv.ParseInt(number, 10, 64)
	e := &cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Compile: &child.Options{},
		Journal: func(j journal.Journal) journal.Journal {
			return &crashingJournal{Journal: j, at: at, after: where == "after"}
		}}
	os.Exit(execute(context.Background(), e, os.Args[1:]))
}

// A crashingJournal is a journal that kills its process at a chosen write.
type crashingJournal struct {
	journal.Journal
	at     int64
	after  bool
	writes atomic.Int64
}

func (m *crashingJournal) write(do func() error) error {
	n := m.writes.Add(1)
	if n == m.at && !m.after {
		die()
	}
	err := do()
	if n == m.at {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (m *crashingJournal) Create(ctx context.Context, r *journal.Creation) error {
	return m.write(func() error { return m.Journal.Create(ctx, r) })
}

func (m *crashingJournal) Claim(ctx context.Context, c *journal.Claim) (kept *journal.StoredRun, err error) {
	err = m.write(func() error {
		kept, err = m.Journal.Claim(ctx, c)
		return err
	})
	return kept, err
}

func (m *crashingJournal) Commit(ctx context.Context, c *journal.Commit) error {
	return m.write(func() error { return m.Journal.Commit(ctx, c) })
}

// A chaosWorld is the model and the tools of the agents. It counts the calls of each tool.
type chaosWorld struct {
	dir, cache, store, file string
	outer                   string // file of an agent that has the agent of file as a tool
	at                      store.Store

	mu    sync.Mutex
	calls map[string]int // number of tool calls by argument

	kills     atomic.Int64 // number of kills left
	processes atomic.Int64
}

// changed matches the errors of a process whose run has advanced since the test chose the
// command.
var changed = regexp.MustCompile(`has come to its end|does not wait for an answer|waits for answers|no interrupt`)

// chaosTools are the tools of the agent. Only "look" is idempotent.
var chaosTools = []string{"pay", "look", "send"}

// rounds is the number of steps in which the model calls all tools concurrently.
const rounds = 2

// outerPrefix marks prompts of the agent that calls the other agent.
const outerPrefix = "outer "

// Generate implements [model.Model]. Its answer depends only on the conversation.
func (w *chaosWorld) Generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
) (*abi.Response, error) {
	key, answered := "", 0
	for _, m := range req.Messages {
		switch m.Role {
		case abi.RoleUser:
			key = m.Content.String()
		case abi.RoleTool:
			answered++
		}
	}
	res := &abi.Response{
		Usage:        &abi.Usage{TotalTokens: 10},
		FinishReason: abi.FinishStop,
		Message:      abi.Assistant("it is all done"),
	}
	if of, ok := strings.CutPrefix(key, outerPrefix); ok {
		if answered == 0 {
			res.FinishReason, res.Message = abi.FinishToolCalls, abi.Assistant("")
			res.Message.ToolCalls = []abi.ToolCall{abi.NewToolCall("sub", "worker", fmt.Sprintf(`{"request":%q}`, of))}
		}
	} else if answered < rounds*len(chaosTools) {
		res.FinishReason, res.Message = abi.FinishToolCalls, abi.Assistant("let me see")
		for i, name := range chaosTools {
			id := fmt.Sprintf("c%d", answered+i)
			res.Message.ToolCalls = append(res.Message.ToolCalls, abi.ToolCall{ID: id, Type: "function",
				Function: abi.FunctionCall{Name: name, Arguments: fmt.Sprintf(`{"key":"%s/%s"}`, key, id)}})
		}
	}
	if sink == nil {
		return res, nil
	}
	for _, c := range res.Message.Chunks() {
		for i, word := range strings.SplitAfter(c.Text, " ") {
			part := c
			if part.Text = word; c.Kind != abi.ChunkText && i > 0 {
				break
			}
			if err := sink(part); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

func (w *chaosWorld) tools() http.Handler {
	type args struct {
		Key string `json:"key"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "world", Version: "1"}, nil)
	for _, name := range chaosTools {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{IdempotentHint: name == "look"}},
			func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.calls[in.Key]++
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " done"}}}, nil, nil
			})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true})
}

func (w *chaosWorld) called(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[key]
}

func newChaosWorld(t *testing.T, where string) *chaosWorld {
	t.Helper()
	w := &chaosWorld{dir: t.TempDir(), store: where, calls: map[string]int{}}
	w.cache = filepath.Join(w.dir, "cache")
	endpoint, err := openaitest.New(w)
	require.NoError(t, err)
	t.Cleanup(endpoint.Close)
	tools := httptest.NewServer(w.tools())
	t.Cleanup(tools.Close)
	modules, err := filepath.Abs("../../testdata/modules")
	require.NoError(t, err)
	gate, err := os.ReadFile(filepath.Join(modules, "says.wasm"))
	require.NoError(t, err)
	for letter, text := range map[string]string{"D": `{"messages":"none","hooks":["gate_tool"]}`, "H": `{"decision":"ask","message":"May it?"}`} {
		gate = bytes.Replace(gate, bytes.Repeat([]byte(letter), 4096), []byte(text+strings.Repeat(" ", 4096-len(text))), 1)
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "gate.wasm"), gate, 0o600))
	w.file = filepath.Join(w.dir, "agent.yaml")
	require.NoError(t, os.WriteFile(w.file, fmt.Appendf(nil, `
model: {name: m, base_url: %q}
tools: {builtin: [], mcp: [{url: %q}]}
middlewares:
  - {module: %s/wrap.wasm, name: wrap, config: {next: "1"}}
  - {module: %s/gate.wasm}
`, endpoint.URL, tools.URL, modules, w.dir), 0o600))
	w.outer = filepath.Join(w.dir, "outer.yaml")
	require.NoError(t, os.WriteFile(w.outer, fmt.Appendf(nil, `
model: {name: m, base_url: %q}
tools: {builtin: []}
agents: [{name: worker, file: agent.yaml}]
`, endpoint.URL), 0o600))
	w.at, err = store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.at.Close()) })
	return w
}

// A victim is one run, across all processes that run it.
type victim struct {
	t        *testing.T
	w        *chaosWorld
	key      string
	outer    bool // another agent calls the agent that does the work as a tool
	run      string
	rand     *rand.Rand
	last     int64            // number of the last event that its client has
	lines    map[int64]string // encoded events by number
	reported map[int64]bool   // numbers of the events that a process reported
	after    map[string]int   // number of calls of the tool when the result of a call was recorded, by tool call ID
}

// process runs agent-runner, possibly kills it, and records the events it reported.
func (v *victim) process(args ...string) {
	t := v.t
	cmd := exec.Command(os.Args[0], append(args, "--store", v.w.store, "--cache-dir", v.w.cache, "-o", "json")...)
	cmd.Dir = v.w.dir
	cmd.Env = append(os.Environ(), envCrashing+"="+v.outcome(), "HOME="+v.w.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if os := cmd.Env[len(cmd.Env)-2]; os == envCrashing+"=random" {
		delay := time.Duration(v.rand.Int64N(int64(250 * time.Millisecond)))
		timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v.take(lines.Text(), "told")
	}
	err = cmd.Wait()
	v.w.processes.Add(1)
	switch code := cmd.ProcessState.ExitCode(); {
	case code == -1:
		v.w.kills.Add(-1)
	case code == cli.ExitUsage && changed.MatchString(stderr.String()):
		// The database may have executed the last statement of an earlier process that was killed
		// before it got the result.
	case code != cli.ExitAnswered && code != cli.ExitPaused:
		require.NoError(t, err, "%v\n%s", args, stderr.String())
	}
	v.catchUp()
}

// outcome returns when to kill the next process, as a value of envCrashing: before or after a
// journal write, "random" for a random time, or "never" if no kills are left.
func (v *victim) outcome() string {
	if v.w.kills.Load() <= 0 {
		return "never"
	}
	switch v.rand.IntN(3) {
	case 0:
		return fmt.Sprintf("before:%d", 1+v.rand.IntN(12))
	case 1:
		return fmt.Sprintf("after:%d", 1+v.rand.IntN(12))
	default:
		return "random"
	}
}

// take records an event. how is "told" if a process reported the event, and "kept" if the event
// was only stored.
func (v *victim) take(line, how string) {
	var e abi.Event
	if json.Unmarshal([]byte(line), &e) != nil && how == "told" {
		return // the process was killed while it wrote
	}
	if e.Seq > v.last+1 && how == "told" {
		v.run = e.Run
		v.catchUp() // a database may execute a statement that a process sent before it was killed
	}
	if how == "told" {
		require.False(v.t, v.reported[e.Seq], "%s: told twice: %s", v.key, line)
		v.reported[e.Seq] = true
		if e.Seq <= v.last { // the client has read it already
			require.Equal(v.t, v.lines[e.Seq], line)
			return
		}
	}
	require.Equal(v.t, v.last+1, e.Seq, "%s: %s: %s", v.key, how, line)
	v.last, v.run = e.Seq, e.Run
	b, err := abijson.Marshal(&e)
	require.NoError(v.t, err)
	v.lines[e.Seq] = string(b)
	if e := v.work(&e); e != nil && e.Type == abi.EventToolResult {
		v.after[e.Call.ID] = v.w.called(v.key + "/" + e.Call.ID)
	}
}

func (v *victim) prompt() string { return map[bool]string{true: outerPrefix}[v.outer] + v.key }

// work returns the event of the agent that does the work: the nested event if v.outer is set, or
// else e itself.
func (v *victim) work(e *abi.Event) *abi.Event {
	if v.outer {
		return e.Event
	}
	return e
}

// find returns the run, or nil if it was not created. It searches for the prompt if no process
// has reported the run's ID.
func (v *victim) find() *journal.RunInfo {
	if v.run != "" {
		info, err := v.w.at.Run(v.t.Context(), v.run)
		require.NoError(v.t, err, "%s is lost", v.key)
		return info
	}
	runs, err := run.ListRuns(v.t.Context(), v.w.at, store.Filter{}, 0)
	require.NoError(v.t, err)
	for i := range runs {
		if runs[i].Title == v.prompt() {
			v.run = runs[i].ID
			return &runs[i]
		}
	}
	return nil
}

func (v *victim) catchUp() {
	if v.find() == nil {
		return
	}
	events, err := v.w.at.Events(v.t.Context(), v.run, v.last, 10_000)
	require.NoError(v.t, err)
	for i := range events {
		b, err := abijson.Marshal(&events[i])
		require.NoError(v.t, err)
		v.take(string(b), "kept")
	}
}

// live starts the run, resumes the run until it ends, at most 200 times, and checks the result.
func (v *victim) live() {
	begin := []string{"run", "-f", map[bool]string{true: v.w.outer, false: v.w.file}[v.outer], v.prompt()}
	v.process(begin...)
	for range 200 {
		info := v.find()
		switch {
		case info == nil: // the process was killed before it created the run
			v.process(begin...)
			continue
		case info.Status == journal.StatusFinished:
			v.catchUp()
			v.check(info)
			return
		}
		args := []string{"runs", "resume", v.run}
		for _, p := range info.Pending {
			args = append(args, "--answer", p.ID+"=approve")
		}
		v.process(args...)
	}
	v.t.Fatalf("%s does not come to its end", v.key)
}

// check checks the reported events, the stored events and the effects.
func (v *victim) check(info *journal.RunInfo) {
	t := v.t
	require.Equal(t, abi.RunStop, info.FinishReason, v.key)
	require.Equal(t, v.last, info.LastSeq)
	kept, err := v.w.at.Events(t.Context(), v.run, 0, 10_000)
	require.NoError(t, err)
	require.Len(t, kept, int(v.last))
	counts := map[abi.EventType]int{}
	for i, e := range kept {
		require.EqualValues(t, i+1, e.Seq)
		b, err := abijson.Marshal(&e)
		require.NoError(t, err)
		require.Equal(t, v.lines[e.Seq], string(b), "the stored event equals the delivered one")
		if i == len(kept)-1 {
			require.Equal(t, abi.EventRunFinished, e.Type)
		}
		work := v.work(&e)
		if work == nil {
			continue
		}
		e = *work
		counts[e.Type]++
		if e.Type != abi.EventToolResult {
			continue
		}
		calls := v.w.called(v.key + "/" + e.Call.ID)
		unknown := strings.Contains(string(e.Result.Extra), "unknown")
		switch {
		case e.Call.Name != "look" && unknown:
			require.LessOrEqual(t, calls, 1, "%s: %s", v.key, e.Call.Name)
		case e.Call.Name != "look":
			require.Equal(t, 1, calls, "%s: %s", v.key, e.Call.Name)
		default:
			require.False(t, unknown, "it may be called again")
			require.Positive(t, calls)
		}
		require.Equal(t, v.after[e.Call.ID], calls, "%s: %s was called again after its result was told", v.key, e.Call.Name)
	}
	tools := rounds * len(chaosTools)
	require.Equal(t, 1, counts[abi.EventRunStarted])
	require.Equal(t, 1, counts[abi.EventRunFinished])
	require.Equal(t, tools, counts[abi.EventToolCall])
	require.Equal(t, tools, counts[abi.EventToolResult])
	require.Equal(t, rounds+1, counts[abi.EventMessage])
	require.Equal(t, rounds+1, counts[abi.EventStepStarted])
	require.Equal(t, rounds+1, counts[abi.EventStepFinished])
}

func TestChaos(t *testing.T) {
	longtest.Skip(t)
	t.Run("SQLite", func(t *testing.T) { chaos(t, filepath.Join(t.TempDir(), "runs.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { chaos(t, postgrestest.Start(t).Create(t, "chaos")) })
}

func chaos(t *testing.T, where string) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	w := newChaosWorld(t, where)
	w.kills.Store(int64(*chaosKills))
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for n := 0; w.kills.Load() > 0 || n == 0; n++ {
				v := &victim{
					t:        t,
					w:        w,
					key:      fmt.Sprintf("key-%d-%d", worker, n),
					outer:    n%2 == 1,
					lines:    map[int64]string{},
					reported: map[int64]bool{},
					after:    map[string]int{},
					rand:     rand.New(rand.NewPCG(seed, uint64(worker)<<32|uint64(n))),
				}
				v.live()
				if t.Failed() {
					return
				}
			}
		})
	}
	wg.Wait()
	runs, err := run.ListRuns(t.Context(), w.at, store.Filter{}, 0)
	require.NoError(t, err)
	t.Logf("%d runs came to their end, through %d processes, of which %d were killed",
		len(runs), w.processes.Load(), int64(*chaosKills)-w.kills.Load())
	for _, r := range runs {
		if r.LastSeq > 0 { // no process reported a run without events: the victim started another run instead
			require.Equal(t, journal.StatusFinished, r.Status)
		}
	}
}
