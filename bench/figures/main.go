// Command figures compares the sandbox's costs and limits with those of the usual alternatives, and
// prints a table in Markdown. It measures all contenders of a row in one run, interleaved, because
// the result is their ratio.
//
//	go run ./figures PLAIN.wasm EXTISM.wasm
//
// The two modules are guests/plain and guests/extism, built for wasip1 as c-shared. The command
// takes several minutes on an idle machine. $ONLY selects one row: hooks, instances, resident,
// ready, runaways or neighbours. $SHAPE selects the runaways whose name contains it, and $ROUNDS is
// the number of their runs.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/machine"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run prints the table for the two modules that args names. With the arguments "resident" and one
// module, it calls [resident] instead.
func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "resident" { // in a separate process
		return resident(ctx, args[1])
	}
	if len(args) != 2 {
		return fmt.Errorf("want two files: PLAIN.wasm EXTISM.wasm")
	}
	plain, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	extism, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	fmt.Printf(
		"%s, %d processors, %s, %s/%s",
		machine.Processor(),
		runtime.NumCPU(),
		runtime.Version(),
		runtime.GOOS,
		runtime.GOARCH,
	)
	for _, path := range []string{"github.com/tetratelabs/wazero", "github.com/extism/go-sdk"} {
		fmt.Printf(", %s %s", path[strings.LastIndex(path, "/")+1:], version(path))
	}
	fmt.Printf(
		". The guest is a Go program of %.1f MB that decodes and encodes a conversation in JSON.\n\n",
		float64(len(plain))/1e6,
	)
	fmt.Println("| | here | against | ratio | target |\n|---|---|---|---|---|")
	load, stolen := machine.LoadAverage(), stolenTime()
	only := os.Getenv("ONLY") // one row's name, for development
	for _, p := range []struct {
		name string
		part func() error
	}{
		{"hooks", func() error { return hooks(ctx, plain, extism) }},
		{"instances", func() error { return instances(ctx, plain) }},
		{"resident", func() error { return residentRow(args[0]) }},
		{"ready", func() error { return ready(ctx, plain) }},
		{"runaways", func() error { return withRunaways(ctx, func(all []runaway) error { return runaways(ctx, all) }) }},
		{"neighbours", func() error {
			return withRunaways(ctx, func(all []runaway) error { return neighbours(ctx, plain, all) })
		}},
	} {
		if only != "" && only != p.name {
			continue
		}
		runtime.GC()
		if err := p.part(); err != nil {
			return err
		}
	}
	fmt.Printf(
		"\nThe machine's load average was %s when this began, and %s at its end, this included. Meanwhile its hypervisor kept its processors for %s.\n",
		load,
		machine.LoadAverage(),
		short(stolenTime()-stolen),
	)
	return nil
}

// row prints a row of the table: a duration measured here, the duration that it is compared with,
// the ratio and its target.
func row(what string, here, other time.Duration, against string, ratio float64, target string) {
	fmt.Printf("| %s | %s | %s %s | %.2f | %s |\n", what, short(here), against, short(other), ratio, target)
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f us", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// byTurns calls the functions alternately, each for at least 20 ms and three calls, in 31 rounds
// after one to warm up. It returns the median time of a call of each.
func byTurns(functions ...func() error) ([]time.Duration, error) {
	const rounds, turn = 31, 20 * time.Millisecond
	times := make([]stats.Durations, len(functions))
	for round := range rounds + 1 {
		for i, f := range functions {
			n, began := 0, time.Now()
			for time.Since(began) < turn || n < 3 {
				if err := f(); err != nil {
					return nil, err
				}
				n++
			}
			if round > 0 { // the first warms up
				times[i] = append(times[i], time.Since(began)/time.Duration(n))
			}
		}
	}
	medians := make([]time.Duration, len(functions))
	for i := range times {
		medians[i] = times[i].At(0.5)
	}
	return medians, nil
}

func version(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == path {
				return dep.Version
			}
		}
	}
	return "of an unknown version"
}
