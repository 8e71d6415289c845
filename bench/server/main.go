// Command server measures the platform and writes the figures as Markdown:
//
//	server [-quick] [-part NAME] [-tenants N] [-attacks NAME,…] [-quotas NAME,…] [-rate N] [-rounds N] [-turn D]
//		AGENT-RUNNER GUEST.wasm OUT.md
//	server -against OTHER-AGENT-RUNNER -rate N [-attacks NAME,…] [-quotas NAME] [-rounds N] [-turn D]
//		AGENT-RUNNER GUEST.wasm OUT.md
//
// It starts AGENT-RUNNER serve with an embedded store, and a model on the loopback interface that
// answers at once. The model, the load generator and the server share the machine.
//
// With -against it compares two builds under the attack of a hostile tenant, in pairs of rounds.
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

	"github.com/agent-runner/agent-runner/bench/internal/chatmodel"
	"github.com/agent-runner/agent-runner/bench/internal/machine"
)

// A plan configures the measurements and their durations.
type plan struct {
	each    time.Duration // duration of one row
	tenants []int
	modules []int
	readers int
	runs    int           // number of concurrent runs whose memory is measured
	rounds  int           // number of rounds with the hostile tenant, and as many without
	turn    time.Duration // duration of a round
	rate    float64       // runs per second of the honest tenants; default: a third of the measured maximum
	attacks string        // attacks of the hostile tenant, separated by commas; default: all
	quotas  string        // quotas of the hostile tenant, separated by commas; default: all
}

func main() {
	quick := flag.Bool("quick", false, "shorter rows and fewer tenants")
	only := flag.String("part", "", "measure only this part: throughput, memory, streams or hostility")
	most := flag.Int("tenants", 1000, "largest number of tenants; creating 1000 takes minutes")
	rounds := flag.Int("rounds", 0, "rounds with the hostile tenant, and as many without; default 12, 4 with -quick")
	turn := flag.Duration("turn", 0, "duration of a round; default a third of a row")
	rate := flag.Float64("rate", 0, "runs per second of the honest tenants; default a third of the measured maximum")
	quotas := flag.String(
		"quotas",
		"",
		"quotas of the hostile tenant, separated by commas: modest, none, inputs; default all",
	)
	ways := flag.String(
		"attacks",
		"",
		"attacks of the hostile tenant, separated by commas: agents, bodies, floods, runs, stalls, uploads; default all",
	)
	against := flag.String("against", "", "compare with this build beside the hostile tenant; needs -rate")
	attack := flag.String("attack", "", "internal: attack the server at this address")
	flag.Parse()
	if *attack != "" {
		if err := idle(); err != nil {
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
	p := plan{
		each:    6 * time.Second,
		tenants: []int{1, 10, *most},
		modules: []int{0, 3, 10},
		readers: 2000,
		runs:    200,
		rounds:  12,
	}
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

// compared compares two builds with compare, and writes the result to the file that the third
// argument names.
func compared(p *plan, against string) error {
	m, err := chatmodel.Start(answer)
	if err != nil {
		return err
	}
	defer m.Close()
	var text bytes.Buffer
	if err := compare(p, flag.Arg(0), against, flag.Arg(1), m.URL, &text); err != nil {
		return err
	}
	return os.WriteFile(flag.Arg(2), text.Bytes(), 0o644)
}

// measure measures all parts, or only the part that only names, and writes the figures to the file
// out. It starts a new server of the given program for each part.
func measure(p *plan, only, program, guest, out string) error {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	m, err := chatmodel.Start(answer)
	if err != nil {
		return err
	}
	defer m.Close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "# The platform in figures\n\n%s, written by `make bench-server`: %s, %d processors, Go %s.\n\n"+
		"A model on the loopback interface answers at once. The model, the load generator and the server with its embedded store share the machine. "+
		"A run is one request to `POST /v1/runs` and its events until `run_finished`; all runs are stored. Each module is %d KB of a Go guest.\n\n",
		"Generated", machine.Processor(), runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"), len(wasm)>>10)
	fmt.Fprintf(
		&text,
		"Load average at the start: %s. Above 0.5, other programs were running and the figures are unreliable.\n\n",
		machine.LoadAverage(),
	)
	for _, part := range []struct {
		name string
		of   func(*plan, *platform, *bytes.Buffer) error
		env  []string // environment of the server
	}{
		{"throughput", throughput, nil},
		{"memory", memory, []string{"GOGC=10"}},
		{"streams", streams, nil},
		{"hostility", hostility, nil},
	} {
		if only != "" && only != part.name {
			continue
		}
		s, err := startPlatform(program, wasm, m.URL, part.env...)
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

// self starts this program as the hostile tenant of the server at address, in its own session, and
// returns the running command. Linux first divides the processors between sessions, so in the same
// session the attacker would use a part of the benchmark's share.
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

// idle restricts this process to processor time that no other process uses, because a real attacker
// uses other machines.
func idle() error {
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0) // works only if the kernel groups tasks by session
	threads, err := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		err = errors.Join(err, unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	}
	return err
}
