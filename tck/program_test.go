package tck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// asHost names the environment variable that makes the test binary run a program of hosts instead
// of the tests. Its value is the program's name.
const asHost = "TCK_HOST"

func TestMain(m *testing.M) {
	if name := os.Getenv(asHost); name != "" {
		os.Exit(hosts[name]())
	}
	os.Exit(m.Run())
}

const hello = `{"type":"hello","protocol":1,"host":"test","capabilities":["*"]}` + "\n"

// hosts are programs by name. Most of them break the protocol in the answer to each case.
var hosts = map[string]func() int{
	"exits at once":     func() int { return 3 },
	"speaks version 2":  func() int { return answer(`{"type":"hello","protocol":2}`+"\n", "") },
	"greets in garbage": func() int { return answer("ready!\n", "") },
	"crashes": func() int {
		fmt.Fprintln(os.Stderr, "panic: no such thing")
		_, _ = readLine()
		fmt.Print(hello)
		_, _ = readLine()
		return 3
	},
	"answers":            func() int { return answer(hello, `{"type":"result","id":"ID"}`+"\n") },
	"answers twice":      func() int { return answer(hello, strings.Repeat(`{"type":"result","id":"ID"}`+"\n", 2)) },
	"serves":             serves,
	"hangs":              func() int { return answer(hello, "") },
	"prints garbage":     func() int { return answer(hello, "done!\n") },
	"prints no UTF-8":    func() int { return answer(hello, "\xff\xfe\n") },
	"prints half a line": func() int { return answer(hello, `{"type":"res`) },
	"exits in a line": func() int {
		_, _ = readLine()
		fmt.Print(hello)
		_, _ = readLine()
		fmt.Print(`{"type":"res`)
		return 0
	},
	"has another id":     func() int { return answer(hello, `{"type":"result","id":"x"}`+"\n") },
	"has an unknown key": func() int { return answer(hello, `{"type":"result","id":"ID","status":1}`+"\n") },
	"has another type":   func() int { return answer(hello, `{"type":"done","id":"ID"}`+"\n") },
	"has no event":       func() int { return answer(hello, `{"type":"event","id":"ID"}`+"\n") },
	"has another field": func() int {
		return answer(hello, `{"type":"result","id":"ID","client":{"type":"RUN_STARTED"}}`+"\n")
	},
	"has half an event": func() int {
		return answer(hello, `{"type":"event","id":"ID","event":{"type":"message","seq":1,"run":"run","time_ms":1}}`+"\n"+
			`{"type":"result","id":"ID"}`+"\n")
	},
	"nests deeply": func() int {
		return answer(hello, `{"type":"client","id":"ID","client":`+strings.Repeat("[", 100_000)+"\n")
	},
	"reports a failure": func() int { return answer(hello, `{"type":"failed","id":"ID","reason":"out of order"}`+"\n") },
	"skips":             func() int { return answer(hello, `{"type":"skipped","id":"ID","reason":"no tools"}`+"\n") },
	"prints a long line": func() int {
		return answer(hello, strings.Repeat("x", 1<<20), func() { flood(strings.Repeat("x", 1<<20)) })
	},
	"prints many lines": func() int {
		line := `{"type":"client","id":"ID","client":{"type":"CUSTOM","value":"` + strings.Repeat("x", 1000) + `"}}` + "\n"
		return answer(hello, line, func() { flood(strings.ReplaceAll(line, "ID", someCase)) })
	},
	"leaves a child": func() int {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), asHost+"=listens")
		out, err := child.StdoutPipe()
		if err != nil || child.Start() != nil {
			return 1
		}
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return 1
		}
		return answer(strings.Replace(hello, "test", strings.TrimSpace(address), 1), "")
	},
	"listens": func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 1
		}
		fmt.Println(l.Addr())
		time.Sleep(time.Minute)
		return 0
	},
	"prints errors": func() int {
		for range 1 << 10 {
			fmt.Fprintln(os.Stderr, strings.Repeat("e", 1<<10))
		}
		return answer(hello, "done!\n")
	},
}

var stdin = bufio.NewReader(os.Stdin)

func readLine() (string, error) { return stdin.ReadString('\n') }

// flood prints text repeatedly, 1 GiB in total.
func flood(text string) {
	for range 1 << 30 / len(text) {
		if _, err := os.Stdout.WriteString(text); err != nil {
			return
		}
	}
}

// answer is a host that prints hello. It then answers each case with text, in which it replaces "ID"
// with the case's name. After each answer it calls the functions in more.
func answer(hello, text string, more ...func()) int {
	for first := true; ; first = false {
		line, err := readLine()
		if err != nil {
			return 0
		}
		if first {
			fmt.Print(hello)
			continue
		}
		var r wire.Request
		if _, err := abijson.Decode([]byte(line), &r); err != nil {
			return 1
		}
		fmt.Print(strings.ReplaceAll(text, `"ID"`, `"`+r.ID+`"`))
		for _, f := range more {
			f()
		}
	}
}

// someCase names a request without modules, so that the tests need not build any.
const someCase = "own-some-case"

func start(t *testing.T, name string) (h Host, stop func() error) {
	t.Helper()
	require.Contains(t, hosts, name)
	t.Setenv(asHost, name)
	self, err := os.Executable()
	require.NoError(t, err)
	h, stop = NewProgram(self)
	t.Cleanup(func() { _ = stop() })
	return h, stop
}

// TestBrokenPrograms checks the error for each program that breaks the protocol, and that the kit
// allocates less than 64 MiB whatever the program prints.
func TestBrokenPrograms(t *testing.T) {
	for _, test := range []struct{ host, want string }{
		{"crashes", "the host's input or output ended (exit status 3); its standard error ends with:\npanic: no such thing"},
		{"hangs", "the host exceeded the time limit"},
		{"prints garbage", `a line is not as the protocol has it: `},
		{"prints no UTF-8", `: "\xff\xfe"`},
		{"prints half a line", `the host exceeded the time limit in the middle of a line: "{\"type\":\"res"`},
		{"exits in a line", `the host's input or output ended in the middle of a line: "{\"type\":\"res"`},
		{"has another id", `a line has the id "x": "{\"type\":\"result\",\"id\":\"x\"}"`},
		{"has an unknown key", `a line has the unknown key "status"`},
		{"has another type", `"done" is no type of a line`},
		{"has another field", `a line of type result has the field client`},
		{"has no event", `a line of type event has no event`},
		{"nests deeply", `a line is not as the protocol has it: `},
		{"reports a failure", "the host reports: out of order"},
		{"prints a long line", "a line exceeds 262144 bytes; it begins with "},
		{"prints many lines", "the answer exceeds 2097152 bytes"},
		{"prints errors", "its standard error ends with:\neee"},
	} {
		t.Run(test.host, func(t *testing.T) {
			h, _ := start(t, test.host)
			_, err := h.Hello(t.Context())
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithTimeout(t.Context(), limitOf(test.host))
			defer cancel()
			_, err = h.Run(ctx, &wire.Request{Type: "case", ID: someCase})
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, test.want)
			require.Less(t, len(err.Error()), 2*maxStderr)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}

// limitOf returns the time limit for a host, which is short for hosts that hang.
func limitOf(host string) time.Duration {
	if host == "hangs" || host == "prints half a line" {
		return 100 * time.Millisecond
	}
	return time.Minute
}

// TestProgramsThatDoNotGreet checks the errors for programs that do not start or do not greet as
// the protocol requires.
func TestProgramsThatDoNotGreet(t *testing.T) {
	for _, test := range []struct{ host, want string }{
		{"exits at once", "greet the host: the host's input or output ended (exit status 3)"},
		{"greets in garbage", "greet the host: a line is not as the protocol has it"},
		{"speaks version 2", "the host speaks version 2 of the protocol, the kit version 1"},
	} {
		t.Run(test.host, func(t *testing.T) {
			h, _ := start(t, test.host)
			_, err := Check(t.Context(), h, &Options{Modules: t.TempDir()})
			require.ErrorContains(t, err, test.want)
			_, err = h.Run(t.Context(), &wire.Request{Type: "case", ID: someCase}) // the program fails again
			require.ErrorContains(t, err, test.want)
		})
	}
	h, _ := NewProgram("/no/such/host")
	_, err := Check(t.Context(), h, &Options{Modules: t.TempDir()})
	require.ErrorContains(t, err, "greet the host: starting it: ")
}

// TestAnswersOutOfTurn checks that a line that a program prints after its answer fails the next case,
// and no further one.
func TestAnswersOutOfTurn(t *testing.T) {
	h, _ := start(t, "answers twice")
	_, err := h.Run(t.Context(), &wire.Request{Type: "case", ID: "a"})
	require.NoError(t, err)
	_, err = h.Run(t.Context(), &wire.Request{Type: "case", ID: "b"})
	require.ErrorContains(t, err, `a line has the id "a"`)
	_, err = h.Run(t.Context(), &wire.Request{Type: "case", ID: "c"})
	require.NoError(t, err)
}

// TestSkips checks that a program can skip a case with a reason.
func TestSkips(t *testing.T) {
	h, stop := start(t, "skips")
	o, err := h.Run(t.Context(), &wire.Request{Type: "case", ID: someCase})
	require.NoError(t, err)
	require.Equal(t, "no tools", o.Skipped)
	require.NoError(t, stop())
}

// TestLeavesNoProcess checks that a child process that a program leaves running ends when the
// program ends.
func TestLeavesNoProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("process groups are of Unix")
	}
	h, stop := start(t, "leaves a child")
	hello, err := h.Hello(t.Context())
	require.NoError(t, err)
	child, err := net.Dial("tcp", hello.Host)
	require.NoError(t, err)
	defer child.Close()
	require.NoError(t, stop())
	require.NoError(t, child.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = child.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestDeadlineAtTheResult checks that a program that is killed while the kit reads the result does
// not fail the next case.
func TestDeadlineAtTheResult(t *testing.T) {
	h, _ := start(t, "answers")
	_, err := h.Hello(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s := h.(*program).process
	s.lines = bufio.NewReader(&afterRead{s.out, cancel})
	r := &wire.Request{Type: "case", ID: someCase}
	_, err = h.Run(ctx, r)
	require.ErrorIs(t, err, context.Canceled)
	_, err = h.Run(t.Context(), r)
	require.NoError(t, err)
}

// An afterRead is a reader that calls a function after each read.
type afterRead struct {
	from io.Reader
	call func()
}

func (a *afterRead) Read(b []byte) (int, error) {
	defer a.call()
	return a.from.Read(b)
}

// TestGivesUp checks that the kit runs no further cases after a program has broken maxBroken cases
// in a row.
func TestGivesUp(t *testing.T) {
	h, _ := start(t, "crashes")
	report, err := Check(t.Context(), h, &Options{Modules: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, len(cases(t)), report.Failed)
	require.Contains(t, report.Results[maxBroken-1].Reason, "exit status 3")
	require.Equal(t, "not run: the host broke 5 cases in a row", report.Results[maxBroken].Reason)
}

// TestReport checks the text and JUnit forms of a report, and that the text contains no control
// characters from a host.
func TestReport(t *testing.T) {
	r := Report{Host: "a\x1bhost", Transport: "native"}
	r.add(Result{Name: "one", Status: passed, TimeMS: 1500})
	r.add(Result{Name: "two", About: "Two.", Status: failed,
		Differences: []Difference{{"state", "a\nb\nc\nd\ne\nf", "a\nb\nc\nd\nE\x1b\nf"}}})
	r.add(
		Result{Name: "three", Status: skipped, Reason: "the host lacks limits, read", Missing: []string{"limits", "read"}},
	)
	r.add(Result{Name: "four", Status: skipped, Reason: "the host lacks limits", Missing: []string{"limits"}})
	r.add(Result{Name: "five", Status: skipped, Reason: "no\x1btools"})
	var text, junit bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Equal(
		t,
		"FAIL two\n     Two.\n     state: - expected, + actual\n     @@ -2,5 +2,5 @@\n      b\n      c\n      d\n"+
			"     -e\n     +E\uFFFD\n      f\n"+
			"SKIP   1: no\uFFFDtools\nSKIP   2: the host lacks limits\nSKIP   1: the host lacks read\n"+
			"host \"a\\x1bhost\", native modules: 1 passed, 1 failed, 3 skipped\n",
		text.String(),
	)
	require.NoError(t, r.WriteJUnit(&junit))
	var suite junitSuite
	require.NoError(t, xml.Unmarshal(junit.Bytes(), &suite))
	require.Equal(t, 5, suite.Tests)
	require.Equal(t, "1.500", suite.Cases[0].Seconds)
	require.Contains(t, suite.Cases[1].Failure.Text, "+E\uFFFD")
	require.Equal(t, "the host lacks limits", suite.Cases[3].Skipped.Message)
}

func cases(t *testing.T) []*golden.Case {
	t.Helper()
	list, err := loadCases()
	require.NoError(t, err)
	return list
}

// quiet is a host without capabilities.
type quiet struct{}

func (quiet) Hello(context.Context) (*wire.Hello, error) {
	return &wire.Hello{Type: "hello", Protocol: wire.Protocol, Host: "quiet"}, nil
}

func (quiet) Run(context.Context, *wire.Request) (*wire.Outcome, error) { return &wire.Outcome{}, nil }

// TestCapabilities checks that no case passes, and more than 350 are skipped, for a host without
// capabilities. It also checks that README.md lists the capabilities that cases need.
func TestCapabilities(t *testing.T) {
	report, err := Check(t.Context(), quiet{}, &Options{Modules: t.TempDir()})
	require.NoError(t, err)
	require.Zero(t, report.Passed)
	require.Greater(t, report.Skipped, 350)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, c := range cases(t) {
		for _, name := range needs(c.Request(), native) {
			if kind, _, ok := strings.Cut(name, ":"); ok {
				name = kind + ":NAME"
			}
			if !listed[name] {
				require.Contains(t, string(readme), "| `"+name+"` |")
				listed[name] = true
			}
		}
	}
}

// TestUnknownCapability checks that a misspelled capability does not skip cases silently.
func TestUnknownCapability(t *testing.T) {
	require.NoError(t, checkCapabilities([]string{"*", "texts", "native", "extism", "typescript", "resume"}, cases(t)))
	require.NoError(t, checkCapabilities([]string{"hook:before_agent"}, cases(t)))
	for _, name := range []string{"resumes", "hook:before-agent", ""} {
		require.ErrorContains(t, checkCapabilities([]string{name}, cases(t)), strconv.Quote(name)+", which no case needs")
	}
}

// TestRequestRoundTrip checks that encoding and decoding the request of each case loses nothing.
func TestRequestRoundTrip(t *testing.T) {
	for _, c := range cases(t) {
		b, err := abijson.Marshal(c.Request())
		require.NoError(t, err)
		var r wire.Request
		unknown, err := abijson.Decode(b, &r)
		require.NoError(t, err, c.Name)
		require.Empty(t, unknown, c.Name)
		again, err := abijson.Marshal(&r)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	}
}

// FuzzLine checks that no line of a host crashes the kit.
func FuzzLine(f *testing.F) {
	f.Add(
		[]byte(
			`{"type":"event","id":"x","event":{"type":"child","seq":1,"run":"r","time_ms":1,"call":{"id":"1","name":"t","arguments":"{}"}}}`,
		),
	)
	f.Add(
		[]byte(
			`{"type":"event","id":"x","event":{"type":"run_finished","seq":1,"run":"r","time_ms":1,"error":{"code":"internal","message":"m"}}}`,
		),
	)
	f.Add(
		[]byte(
			`{"type":"model_call","id":"x","model_call":{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}}`,
		),
	)
	f.Add([]byte(`{"type":"tool_call","id":"x","tool_call":{"name":"t","arguments":"{}"}}`))
	f.Add([]byte(`{"type":"client","id":"x","client":{"type":"CUSTOM"}}`))
	everything, err := golden.Parse(
		"x.txtar",
		[]byte("About.\n-- asked --\n-- request 1 --\n-- state --\n-- client --\n-- events "+
			strings.Join(eventNames(), ",")+" --\n"),
	)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		var l wire.Line
		if decodeLine(b, &l) != nil {
			return
		}
		o := &wire.Outcome{State: l.State}
		if add(o, &l) != nil {
			return
		}
		differences, err := everything.Compare(o, true)
		if err == nil {
			for _, d := range differences {
				_ = d.String()
			}
		}
	})
}

func eventNames() []string {
	var out []string
	for _, e := range []abi.EventType{
		abi.EventChunk, abi.EventMessage, abi.EventToolCall, abi.EventToolResult, abi.EventCustom, abi.EventLog,
		abi.EventFault, abi.EventModelAttempt, abi.EventLimit, abi.EventRepair, abi.EventTransfer, abi.EventLabels,
		abi.EventChild,
		abi.EventRunPaused, abi.EventRunFinished,
	} {
		out = append(out, string(e))
	}
	return out
}

// TestQuotesEndBetweenCharacters checks that a report does not split a character of a program's
// output, neither at the end of a quoted line nor at the start of the last bytes.
func TestQuotesEndBetweenCharacters(t *testing.T) {
	require.Equal(t, `"x`+strings.Repeat("世", 66)+`"…`, quote([]byte("x"+strings.Repeat("世", 99))))

	var last tail
	for range maxStderr {
		_, err := last.Write([]byte("世"))
		require.NoError(t, err)
	}
	require.Equal(t, strings.Repeat("世", maxStderr/3), last.String())
}
