// Command agents measures one agent with the same five middlewares. It runs them in several ways,
// such as modules, native code and side-cars:
//
//	agents [-turns N] [-each TIME] [-history N] FIVE.wasm FIVE-EXTISM.wasm [OTHER ...]
//
// FIVE.wasm is guests/five. Each OTHER is the same module in another language, such as
// guests/five/five.ts, or the output of "agent-runner module build" for guests/five/c.
//
// The runs of the peers are interleaved in one process, because the result is the ratio between
// them. The command checks that each run of each peer has the same text, chunks, tool calls,
// results and counters. With -concurrent the command measures concurrent runs, with -memory their
// memory, with -line the cost of each additional module, with -cost the processor time and memory
// of a run, and with -langchain what the middlewares add to a run, here and in LangChain.js.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
)

func main() {
	if serve() {
		return
	}
	turns := flag.Int("turns", 10, "how often each peer has its turn")
	each := flag.Duration("each", 400*time.Millisecond, "how long a turn is")
	messages := flag.Int("history", 10, "messages of 1 KB before the question")
	only := flag.String(
		"only",
		"",
		"measure the peers whose name has this in it; the first of them is what the others are compared with",
	)
	profile := flag.String("cpuprofile", "", "write a profile of the turns to this file")
	drawing := flag.String("svg", "", "write a plot to this file")
	many := flag.Bool("concurrent", false, "measure runs side by side instead")
	held := flag.Bool("memory", false, "measure the memory of runs that wait instead")
	costs := flag.Bool("cost", false, "measure what a run takes of the processors and of memory instead")
	row := flag.Bool("line", false, "measure what each module more costs instead")
	chain := flag.String("langchain", "",
		"measure what the middlewares add instead, here and in LangChain.js, which is installed in this folder")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	var options host.Options
	if *held {
		// a run reserves the memory that it may use; this benchmark does not measure that limit
		options.MemoryBytes = 1 << 50
	}
	h, err := host.New(ctx, &options)
	if err == nil {
		defer h.Close(ctx)
		switch {
		case *many:
			err = concurrent(ctx, h, flag.Arg(0), history(*messages), *each)
		case *held:
			err = memory(ctx, h, flag.Arg(0), history(*messages))
		case *chain != "":
			err = added(ctx, h, *chain, append(flag.Args()[:1], flag.Args()[2:]...), history(*messages), *turns, *each)
		case *row:
			err = line(ctx, h, flag.Arg(0), history(*messages), *each)
		default:
			var peers []*peer
			if peers, err = start(ctx, h, flag.Args(), history(*messages), *only); err != nil {
				break
			}
			if *costs {
				err = cost(ctx, peers, *each, *profile)
			} else {
				err = measure(ctx, peers, *turns, *each, *profile, *drawing)
			}
			for _, p := range peers {
				p.close()
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// repeat calls the function do at least once, and again until the given time has passed. It returns
// the number of calls and the time that they took.
func repeat(each time.Duration, do func() error) (n int, took time.Duration, err error) {
	began := time.Now()
	for n == 0 || time.Since(began) < each {
		if err := do(); err != nil {
			return 0, 0, err
		}
		n++
	}
	return n, time.Since(began), nil
}

// measure runs the peers alternately and prints a table of their speed and processor time. In each
// turn, every peer runs for the given time. measure also writes a CPU profile and a plot, if their
// paths are not empty.
func measure(ctx context.Context, peers []*peer, turns int, each time.Duration, profile, drawing string) error {
	perSecond := make([][]float64, len(peers))
	used, runs := make([]time.Duration, len(peers)), make([]int, len(peers))
	stop, err := profileTo(profile)
	if err != nil {
		return err
	}
	defer stop()
	for turn := range turns + 1 {
		for i, p := range peers {
			before, err := p.used()
			if err != nil {
				return err
			}
			n, took, err := repeat(each, func() error { return p.checked(ctx) })
			if err != nil {
				return err
			}
			after, err := p.used()
			if err != nil {
				return err
			}
			if turn > 0 { // the first warms up
				perSecond[i] = append(perSecond[i], float64(n)/took.Seconds())
				used[i], runs[i] = used[i]+after-before, runs[i]+n
			}
		}
	}
	fmt.Println(
		"| | size of the module | runs a second | us a run | us of the processors | speedup of " + ratioTo(
			peers[0],
		) + " |\n|---|---|---|---|---|---|",
	)
	var bars []bar
	for i, p := range peers {
		ratios := make([]float64, turns)
		for t := range turns {
			ratios[t] = perSecond[0][t] / perSecond[i][t]
		}
		m := stats.Median(perSecond[i])
		fmt.Printf(
			"| %s | %s | %.0f | %.0f | %.0f | %.2f (%.2f to %.2f) |\n",
			p.name,
			p.size,
			m,
			1e6/m,
			float64(used[i].Microseconds())/float64(runs[i]),
			stats.Median(ratios),
			slices.Min(ratios),
			slices.Max(ratios),
		)
		bars = append(bars, bar{p.name, m})
	}
	if drawing != "" {
		return plot(
			drawing,
			"The same agent with the same five middlewares",
			"runs a second, one after the other (logarithmic)",
			bars,
		)
	}
	return nil
}

// ratioTo returns the name that the table uses for the first peer, with which the other peers are
// compared.
func ratioTo(first *peer) string {
	if first.name == mainPeer {
		return "here (Go guests)"
	}
	return "the first"
}

// profileTo writes a CPU profile to path until stop is called. If path is empty, it does nothing.
func profileTo(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "agents:", err)
		}
	}, nil
}
