// Command report writes docs/performance.md and its plot, by the other commands of
// this folder:
//
//	report [-quick] BUILT OUT.md
//
// where BUILT is the folder with the guests and the commands, as make bench builds
// them.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A section is one table, made by one command.
type section struct {
	title, before string
	command       []string
}

func sections(plot string, quick bool) []section {
	turns, each := "10", "400ms"
	if quick {
		turns, each = "3", "200ms"
	}
	return []section{
		{"Against what people would use instead",
			"The same agent, four steps with three calls of a tool, and five middlewares of the same work: dangling calls answered, a gate, redaction of the stream and of results, a cache around the tool, an observer. " +
				"Each run of each peer is held against the same text, results and counters. The peers run by turns in one process, one run after the other; their own processes are the side-cars' and the plug-ins'. " +
				"The last column is the median of the turns, least and most in brackets.\n\n![](performance.svg)",
			[]string{"agents", "-turns", turns, "-each", each, "-svg", plot, "five.wasm", "five-extism.wasm"}},
		{"What each module more costs",
			"The same agent with the redaction once, twice and more often.",
			[]string{"agents", "-line", "-each", each, "five.wasm", "-"}},
		{"As the conversation grows",
			"A step of a run, with a conversation of so many messages of 1 KB before it, and a module that looks at nothing, at the last message, or at all of them once. The first step, in which a module that looks at all reads all, is apart.",
			[]string{"history", "look.wasm"}},
		{"Reading and writing in the guest",
			"", []string{"codec", "codec.wasm"}},
		{"Runs side by side",
			"Five modules, and so many runs at once.",
			[]string{"agents", "-concurrent", "-each", each, "five.wasm", "-"}},
		{"Memory", "", []string{"agents", "-memory", "five.wasm", "-"}},
	}
}

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter turns")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: report [-quick] BUILT OUT.md")
		os.Exit(2)
	}
	if err := report(flag.Arg(0), flag.Arg(1), *quick); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(built, out string, quick bool) error {
	built, err := filepath.Abs(built)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Performance\n\n`make bench` writes this file. What counts are the ratios within a table; times depend on the machine and on what else it does.\n\n")
	fmt.Fprintf(&w, "%s: %s, %d processors, load %s, %s/%s, %s", time.Now().Format("2 January 2006"), cpu(), runtime.NumCPU(), load(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, path := range []string{"github.com/tetratelabs/wazero", "github.com/cloudwego/eino", "github.com/extism/go-sdk", "github.com/hashicorp/go-plugin"} {
		fmt.Fprintf(&w, ", %s %s", path[strings.LastIndexByte(path, '/')+1:], version(path))
	}
	w.WriteString(".\n")
	if err := sizes(&w, built); err != nil {
		return err
	}
	for _, s := range sections(strings.TrimSuffix(out, ".md")+".svg", quick) {
		fmt.Fprintln(os.Stderr, s.title)
		cmd := exec.Command(filepath.Join(built, s.command[0]), s.command[1:]...)
		cmd.Dir, cmd.Stderr = built, os.Stderr
		table, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(s.command, " "), err)
		}
		fmt.Fprintf(&w, "\n## %s\n\n", s.title)
		if s.before != "" {
			fmt.Fprintf(&w, "%s\n\n", s.before)
		}
		w.Write(table)
	}
	if err := startUp(&w, filepath.Dir(filepath.Dir(built))); err != nil {
		return err
	}
	w.WriteString(missed)
	return os.WriteFile(out, w.Bytes(), 0o644)
}

// missed says what the figures do not reach, and why: measured with profiles, by hand.
//
//go:embed missed.md
var missed string

// startUp measures the demo: a whole process with five modules, whose machine code
// is in the cache from the first time on.
func startUp(w *bytes.Buffer, root string) error {
	prompt, err := os.ReadFile(filepath.Join(root, "examples/demo/prompt.txt"))
	if err != nil {
		return err
	}
	var firsts, ends, used []time.Duration
	for i := range 8 {
		cmd := exec.Command(filepath.Join(root, "build/agent-runner"), "run", "-f", "examples/demo/agent.yaml", "-o", "json",
			"--replay", "examples/demo/conversation.json", "--messages", "examples/demo/earlier.json", "-")
		var failed bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(prompt), &failed
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("the demo: %w", err)
		}
		first := firstHook(out, began)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("the demo: %w: %s", err, failed.Bytes())
		}
		if first == 0 {
			return errors.New("the demo: none of its hooks said anything")
		}
		if i > 0 { // the first may have compiled
			firsts, ends = append(firsts, first), append(ends, time.Since(began))
			used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	fmt.Fprintf(w, "\n## Start-up\n\nThe demo, `make run`, with five Go guests from the cache: its first hook has answered %d ms after the start of the process, "+
		"which ends after %d ms, and takes %d ms of the processors. The least of seven: %d ms, %d ms and %d ms.\n",
		middle(firsts), middle(ends), middle(used), slices.Min(firsts).Milliseconds(), slices.Min(ends).Milliseconds(), slices.Min(used).Milliseconds())
	return nil
}

// firstHook reads the events of a run to their end, and tells how long after a time
// there was one behind the first that a hook made: then that hook had answered. It is 0
// if no hook made any.
func firstHook(events io.Reader, began time.Time) (first time.Duration) {
	made := false
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if made && first == 0 {
			first = time.Since(began)
		}
		made = made || bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"custom"`))
	}
	return first
}

// middle is the median, in milliseconds.
func middle(took []time.Duration) int64 {
	return slices.Sorted(slices.Values(took))[len(took)/2].Milliseconds()
}

// sizes tells how large the guests are.
func sizes(w *bytes.Buffer, built string) error {
	files, err := filepath.Glob(filepath.Join(built, "*.wasm"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	w.WriteString("\nThe guests, Go programs:")
	for i, path := range files {
		f, err := os.Stat(path)
		if err != nil {
			return err
		}
		if i > 0 {
			w.WriteByte(',')
		}
		fmt.Fprintf(w, " %s %.1f MB", filepath.Base(path), float64(f.Size())/1e6)
	}
	w.WriteString(".\n")
	return nil
}

func cpu() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// version is what the benchmarks' go.mod requires.
func version(path string) string {
	b, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", path).Output()
	if err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(string(b))
}
