// Command server measures the platform, and writes the figures as Markdown:
//
//	server [-quick] [-part NAME] [-tenants N] [-attacks NAME,…] [-quotas NAME,…] [-rate N] [-rounds N] [-turn D] AGENT-RUNNER GUEST.wasm OUT.md
//	server -against OTHER-AGENT-RUNNER -rate N [-attacks NAME,…] [-quotas NAME] [-rounds N] [-turn D] AGENT-RUNNER GUEST.wasm OUT.md
//
// It starts AGENT-RUNNER serve with an embedded store, and a model on the loopback
// interface that answers at once; both, and what sends the load, share the machine.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A plan is how much is measured.
type plan struct {
	each    time.Duration // of one row
	tenants []int
	modules []int
	readers int
	runs    int           // at once, for their memory
	rounds  int           // with a hostile tenant, and without
	turn    time.Duration // of each of them
	rate    float64       // of runs a second meanwhile; 0: a third of what the machine can
	attacks string        // what the hostile tenant does; all of it when empty
	quotas  string        // what it may do; one after the other when empty
}

func main() {
	quick := flag.Bool("quick", false, "shorter rows and fewer tenants")
	only := flag.String("part", "", "measure this part alone: throughput, memory, streams or hostility")
	most := flag.Int("tenants", 1000, "the most tenants; to make so many takes minutes")
	rounds := flag.Int("rounds", 0, "how many turns the hostile tenant has, and has not; 12, or 4 with -quick, when 0")
	turn := flag.Duration("turn", 0, "how long each of them is; a third of a row when 0")
	rate := flag.Float64("rate", 0, "runs a second beside the hostile tenant; a third of what the machine can when 0")
	quotas := flag.String("quotas", "", "the hostile tenant's quotas: some of modest, none and inputs, with commas; all of them when empty")
	ways := flag.String("attacks", "", "what the hostile tenant does: some of agents, bodies, floods, runs, stalls and uploads, with commas; all of it when empty")
	against := flag.String("against", "", "compare with this build beside the hostile tenant, and measure nothing else; needs -rate")
	attack := flag.String("attack", "", "be the hostile tenant: of the server at this address (the program starts itself so)")
	flag.Parse()
	if *attack != "" {
		if err := last(); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		attackUntilKilled(*attack, flag.Arg(0), flag.Arg(1), *ways)
		return
	}
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: server [-quick] [-part NAME] AGENT-RUNNER GUEST.wasm OUT.md")
		os.Exit(2)
	}
	p := plan{each: 6 * time.Second, tenants: []int{1, 10, *most}, modules: []int{0, 3, 10}, readers: 2000, runs: 200, rounds: 12}
	if *quick {
		p = plan{each: 2 * time.Second, tenants: []int{1, 10}, modules: []int{0, 3}, readers: 200, runs: 100, rounds: 4}
	}
	p.attacks, p.quotas, p.rate = *ways, *quotas, *rate
	p.rounds, p.turn = cmp.Or(*rounds, p.rounds), cmp.Or(*turn, p.each/3)
	if *against != "" {
		if err := compared(&p, *against); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(&p, *only, flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// compared compares two builds, see compare.
func compared(p *plan, against string) error {
	m, err := startModel()
	if err != nil {
		return err
	}
	defer m.close()
	var text bytes.Buffer
	if err := compare(p, flag.Arg(0), against, flag.Arg(1), m.url, &text); err != nil {
		return err
	}
	return os.WriteFile(flag.Arg(2), text.Bytes(), 0o644)
}

// measure measures everything, each part on a server of its own.
func measure(p *plan, only, program, guest, out string) error {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	m, err := startModel()
	if err != nil {
		return err
	}
	defer m.close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "# The platform in figures\n\n%s, written by `make bench-server`: %s, %d processors, Go %s.\n\n"+
		"A model on the loopback interface answers at once; it, what sends the load and the server, with its embedded store, share the machine. "+
		"A run is one request to `POST /v1/runs` with its events until `run_finished`, and every run is kept. Each module is %d KB of a Go guest.\n\n",
		"Generated", processor(), runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"), len(wasm)>>10)
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&text, "Before it began the machine's load was %s: where that is above 0.5, others had their part of it, and the figures say little.\n\n", strings.Fields(string(b))[0])
	}
	for _, part := range []struct {
		name string
		of   func(*plan, *platform, *bytes.Buffer) error
		env  []string // of the server
	}{{"throughput", throughput, nil}, {"memory", memory, []string{"GOGC=10"}}, {"streams", streams, nil}, {"hostility", hostility, nil}} {
		if only != "" && only != part.name {
			continue
		}
		s, err := startPlatform(program, wasm, m.url, part.env...)
		if err != nil {
			return err
		}
		err = part.of(p, s, &text)
		s.close()
		if err != nil {
			return err
		}
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// processor is what this machine calculates with.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				return strings.Trim(name, " \t:\n")
			}
		}
	}
	return runtime.GOARCH
}

// self starts this program as the hostile tenant, in a session of its own: Linux shares
// processors between sessions first, and what sends would have the server's part.
func self(address, key, wasm, attacks string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-attack", address, "-attacks", attacks, key, wasm)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// last lets this process, and its session, have what nobody else wants of the processors:
// what sends the attack would be on other machines, and is not the server's work.
func last() error {
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0) // where sessions have shares
	threads, err := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		err = errors.Join(err, unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	}
	return err
}
