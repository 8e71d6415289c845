package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the generated modules; 0: another one each time")
	firstFlag  = flag.Int("first", 0, "the first of the generated modules")
	countFlag  = flag.Int("modules", 300, "how many modules to generate")
	strictFlag = flag.Bool(
		"strict",
		false,
		"hold the deadline by the clock too, for a machine that has nothing else to do",
	)
)

// deadlineSlack bounds the time by which a hook may exceed its deadline.
const deadlineSlack = 10 * time.Millisecond

// stuckAfter bounds the time of one module. A child that takes longer is killed.
const stuckAfter = 2 * time.Minute

// A verdict is the outcome of one generated module, as a child process reports it.
type verdict struct {
	N     int
	Begun bool // whether the module is about to be loaded; there is no outcome yet
	Done  bool // whether the child has run all its modules

	Group, Outcome string
	Wrong          []string
	Calls          int
	// Late, Own and CPU are the times by which the module's hooks exceeded their deadline: Late is
	// elapsed time, Own is elapsed time without that in which the hook's thread was ready but other
	// threads ran, and CPU is processor time. Own and CPU omit hooks that called next.
	Late, Own, CPU []time.Duration
	Load, All      time.Duration
}

// TestGenerated checks that each generated module ends in an answer, a rejection or a typed fault,
// and that the host still runs a well-behaved module afterwards. It runs them in child processes,
// so that a crash ends only a child. To repeat module N, run go test -run TestGenerated -args -seed
// S -first N -modules 1.
func TestGenerated(t *testing.T) {
	if fd := os.Getenv("HOSTILE_CHILD"); fd != "" {
		child(t)
		return
	}
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, modules %d to %d", seed, *firstFlag, *firstFlag+*countFlag-1)
	s := &summary{outcomes: map[string]int{}}
	last := *firstFlag + *countFlag
	for next := *firstFlag; next < last; {
		died, err := s.batch(seed, next, last)
		if err != nil {
			s.wrong = append(s.wrong, fmt.Sprintf("module %d ended its process: %v", died, err))
			next = died + 1
			continue
		}
		break
	}
	s.report(t)
	require.Empty(
		t,
		s.lateAgain(seed),
		"hooks of these modules work for longer than %v after their deadline",
		deadlineSlack,
	)
	for _, w := range s.wrong {
		t.Errorf(
			"%s\n\trepeat it: go test ./internal/hostile -run TestGenerated -v -args -seed %d -modules 1 -first N",
			w,
			seed,
		)
	}
}

// A summary counts the outcomes of all modules.
type summary struct {
	outcomes  map[string]int
	wrong     []string
	modules   int
	calls     int
	load, all time.Duration
	slowest   int
	slow      []int // numbers of the modules whose hooks exceeded their deadline
	busy      []int // numbers of the modules whose hooks exceeded their deadline in processor time

	late, own, cpu []time.Duration
}

// batch runs the modules with numbers in [next, last) in one child process. If it returns an error,
// died is the number of the module that the child was running.
func (s *summary) batch(seed uint64, next, last int) (died int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return next, err
	}
	defer r.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGenerated$", "-test.timeout=0",
		"-seed", strconv.FormatUint(seed, 10), "-first", strconv.Itoa(next), "-modules", strconv.Itoa(last-next))
	cmd.Env = append(os.Environ(), "HOSTILE_CHILD=3")
	cmd.ExtraFiles = []*os.File{w}
	var stderr tail
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	if err := cmd.Start(); err != nil {
		return next, err
	}
	_ = w.Close()
	stuck := time.AfterFunc(stuckAfter, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	done := false
	died = next
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20) // a module with many hook calls has a long verdict
	for lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return died, err
		}
		stuck.Reset(stuckAfter)
		switch {
		case v.Done:
			done = true
			for _, w := range v.Wrong {
				s.wrong = append(s.wrong, "at the end: "+w)
			}
		case v.Begun:
			died = v.N
		default:
			s.add(&v)
		}
	}
	_ = r.Close() // ends a child that still writes
	stuck.Stop()
	if err = cmd.Wait(); !done || err != nil {
		return died, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return 0, nil
}

// tail stores the first 4,096 bytes of a child's output, and the last 2,048 of the rest.
type tail struct{ head, rest []byte }

func (t *tail) Write(b []byte) (int, error) {
	n := min(len(b), 4096-len(t.head))
	t.head = append(t.head, b[:n]...)
	t.rest = append(t.rest, b[n:]...)
	t.rest = t.rest[max(0, len(t.rest)-2048):]
	return len(b), nil
}

func (t *tail) String() string { return string(t.head) + "\n…\n" + string(t.rest) }

func (s *summary) add(v *verdict) {
	s.modules++
	s.calls += v.Calls
	s.outcomes[v.Group+" "+v.Outcome]++
	s.late, s.own, s.cpu = append(s.late, v.Late...), append(s.own, v.Own...), append(s.cpu, v.CPU...)
	s.load = max(s.load, v.Load)
	if v.All > s.all {
		s.all, s.slowest = v.All, v.N
	}
	if over(v.Own) > 0 {
		s.slow = append(s.slow, v.N)
	}
	if over(v.CPU) > 0 {
		s.busy = append(s.busy, v.N)
	}
	for _, w := range v.Wrong {
		s.wrong = append(s.wrong, fmt.Sprintf("module %d (%s): %s", v.N, v.Group, w))
	}
}

func (s *summary) report(t *testing.T) {
	var names []string
	for name, n := range s.outcomes {
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	t.Logf("%d modules, %d hook calls: %s", s.modules, s.calls, strings.Join(names, ", "))
	t.Logf("deadlines passed, by the clock: %s", spread(s.late))
	t.Logf("without what the machine did for others: %s", spread(s.own))
	t.Logf("in processor time: %s", spread(s.cpu))
	t.Logf("longest load and configuration %v; longest module %v (%d)", s.load, s.all, s.slowest)
	if len(s.slow) > 0 {
		t.Logf("late were hooks of the modules %v", s.slow)
	}
	if *strictFlag {
		require.LessOrEqual(t, over(s.late), 1+s.calls/1000, "hooks ended later than %v after their deadline", deadlineSlack)
	}
}

// lateAgain repeats the modules whose hooks took more processor time than their deadline allows, and
// returns those that do so again. The kernel's clock of processor time is inexact on a busy machine.
func (s *summary) lateAgain(seed uint64) (late []int) {
	for _, n := range s.busy {
		again := &summary{outcomes: map[string]int{}}
		if _, err := again.batch(seed, n, n+1); err != nil || over(again.cpu) > 0 {
			late = append(late, n)
		}
	}
	return late
}

func over(list []time.Duration) (n int) {
	for _, d := range list {
		if d > deadlineSlack {
			n++
		}
	}
	return n
}

func spread(list []time.Duration) string {
	if len(list) == 0 {
		return "never"
	}
	slices.Sort(list)
	at := func(p int) time.Duration {
		return list[min(len(list)-1, len(list)*p/1000)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d times, median %v, p99 %v, p99.9 %v, most %v, %d by more than %v",
		len(list), at(500), at(990), at(999), list[len(list)-1].Round(10*time.Microsecond), over(list), deadlineSlack)
}

// child runs its modules sequentially and reports each.
func child(t *testing.T) {
	out := os.NewFile(3, "verdicts")
	tell := func(v verdict) {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		_, err = out.Write(append(b, '\n'))
		require.NoError(t, err)
	}
	h, err := newHost()
	require.NoError(t, err)
	g := NewGenerator(*seedFlag, honestModules(t)...)
	requireWorking(t, h)
	memoryBefore, goroutines := memory(), runtime.NumGoroutine()
	for n := *firstFlag; n < *firstFlag+*countFlag; n++ {
		tell(verdict{N: n, Begun: true})
		tell(h.judge(g.Case(n), n))
		if n%100 == 0 {
			requireWorking(t, h)
		}
	}
	requireWorking(t, h)
	end := verdict{Done: true}
	if more := memory() - memoryBefore; more > heapSlack {
		end.Wrong = append(end.Wrong, fmt.Sprintf("%d MB of memory were kept", more>>20))
	}
	require.NoError(t, h.close())
	for range 100 { // canceled work needs a moment to end
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		end.Wrong = append(end.Wrong, fmt.Sprintf("%d goroutines were left", n-goroutines))
	}
	tell(end)
}

func honestModules(t *testing.T) [][]byte {
	files, err := filepath.Glob("../../testdata/modules/*.wasm")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	list := [][]byte{honest()}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		list = append(list, b)
	}
	return list
}

// judge runs a generated module and returns its verdict.
func (h *host) judge(c *Case, n int) verdict {
	v := verdict{N: n, Group: c.Group, Outcome: "harmless"}
	wrong := func(format string, args ...any) { v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	o := h.run(ctx, c)
	v.All, v.Load, v.Calls = time.Since(began), o.load, len(o.calls)
	if ctx.Err() != nil {
		wrong("did not come to an end within a minute")
	}
	for _, text := range h.complaints() {
		wrong("the host noted a mistake of its own: %s", text)
	}
	var refused *verify.RefusedError
	var config *module.ConfigError
	switch {
	case o.refusal == nil:
	case errors.As(o.refusal, &refused), errors.As(o.refusal, &config):
		v.Outcome = "refused"
		return v
	default:
		wrong("the refusal is of no type of its own: %v", o.refusal)
		return v
	}
	if len(o.Events) == 0 || o.Last().Type != abi.EventRunFinished && o.Last().Type != abi.EventRunPaused {
		wrong("the run has no end")
	}
	for _, call := range o.calls {
		if text := wrongError(call.err); text != "" && !call.left {
			wrong("%s: %s", call.hook, text)
		}
		if call.err != nil {
			v.Outcome = "faulted"
		}
		over := call.wall - c.Limits.HookTime
		if over <= 0 || o.rebuilt {
			continue
		}
		v.Late = append(v.Late, over)
		if !call.waits {
			v.Own, v.CPU = append(v.Own, call.own-c.Limits.HookTime), append(v.CPU, call.cpu-c.Limits.HookTime)
		}
	}
	return v
}

// wrongError returns a description of the problem with the error of a hook call, or "" if there is none. The error
// must be the module's own, one that ends the run (see [ending.Is]), or a typed fault that is not a mistake of the
// host.
func wrongError(err error) string {
	var own *abi.Error
	var fault *ending.FaultError
	var guest *sandbox.FaultError
	switch {
	case err == nil, errors.As(err, &own):
		return ""
	case errors.As(err, &guest) && guest.Kind == sandbox.FaultInternal:
		return "a fault of the host: " + err.Error()
	case errors.As(err, &fault), ending.Is(err):
		return ""
	default:
		return "an error of no type of its own: " + err.Error()
	}
}
