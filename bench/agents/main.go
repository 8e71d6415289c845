// Command agents measures the same agent with the same five middlewares, in
// several ways to run what one does not trust, or does:
//
//	agents [-turns N] [-each TIME] [-history N] FIVE.wasm FIVE-EXTISM.wasm
//
// The peers run by turns, in one process, so that what counts is the ratio
// between them. Each run of each peer is held against the same messages,
// chunks and counters. With -concurrent it measures runs side by side, with
// -memory what they have in memory, with -line what each module more costs, and with
// -cost what a run takes of the processors and of memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host"
)

func main() {
	if serve() {
		return
	}
	turns := flag.Int("turns", 10, "how often each peer has its turn")
	each := flag.Duration("each", 400*time.Millisecond, "how long a turn is")
	messages := flag.Int("history", 10, "messages of 1 KB before the question")
	only := flag.String("only", "", "measure the peers whose name has this in it")
	profile := flag.String("cpuprofile", "", "write a profile of the turns to this file")
	drawing := flag.String("svg", "", "write a plot to this file")
	many := flag.Bool("concurrent", false, "measure runs side by side instead")
	held := flag.Bool("memory", false, "measure the memory of runs that wait instead")
	costs := flag.Bool("cost", false, "measure what a run takes of the processors and of memory instead")
	row := flag.Bool("line", false, "measure what each module more costs instead")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	var options host.Options
	if *held {
		options.MemoryBytes = 1 << 50 // a run reserves the most that it may use, which is not measured here
	}
	h, err := host.New(ctx, &options)
	if err == nil {
		defer h.Close(ctx)
		switch {
		case *many:
			err = concurrent(ctx, h, flag.Arg(0), *messages, *each)
		case *held:
			err = memory(ctx, h, flag.Arg(0), history(*messages))
		case *row:
			err = line(ctx, h, flag.Arg(0), *messages, *each)
		default:
			err = measure(ctx, h, flag.Arg(0), flag.Arg(1), *turns, *each, *messages, *only, *profile, *drawing, *costs)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, h *host.Host, module, extismModule string, turns int, each time.Duration, messages int, only, profile, drawing string, costs bool) error {
	var peers []*peer
	for _, make := range []func() (*peer, error){
		func() (*peer, error) { return ourModules(ctx, h, module, "here: five modules, Go guests") },
		func() (*peer, error) { return native(ctx, h) },
		func() (*peer, error) { return inEino(ctx) },
		func() (*peer, error) { return inExtism(ctx, h, extismModule) },
		func() (*peer, error) { return plugins(ctx, h) },
		func() (*peer, error) { return sideCars(ctx, h) },
	} {
		p, err := make()
		if err != nil {
			return err
		}
		defer p.close()
		if !strings.Contains(p.name, only) {
			continue
		}
		peers = append(peers, p)
	}
	talk := history(messages)
	if costs {
		return cost(ctx, peers, talk, each, profile)
	}
	perSecond := make([][]float64, len(peers))
	stop, err := profileTo(profile)
	if err != nil {
		return err
	}
	defer stop()
	for turn := range turns + 1 {
		for i, p := range peers {
			n, began := 0, time.Now()
			for time.Since(began) < each {
				got, err := p.run(ctx, talk)
				if err == nil {
					err = got.same(want())
				}
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				n++
			}
			if turn > 0 { // the first warms up
				perSecond[i] = append(perSecond[i], float64(n)/time.Since(began).Seconds())
			}
		}
	}
	fmt.Printf("| | runs a second | us a run | here is so many times as fast |\n|---|---|---|---|\n")
	var bars []bar
	for i, p := range peers {
		ratios := make([]float64, turns)
		for t := range turns {
			ratios[t] = perSecond[0][t] / perSecond[i][t]
		}
		m := median(perSecond[i])
		fmt.Printf("| %s | %.0f | %.0f | %.2f (%.2f to %.2f) |\n", p.name, m, 1e6/m, median(ratios), slices.Min(ratios), slices.Max(ratios))
		bars = append(bars, bar{p.name, m})
	}
	if drawing != "" {
		return plot(drawing, "The same agent with the same five middlewares", "runs a second, one after the other (logarithmic)", bars)
	}
	return nil
}

// profileTo writes a profile of the processor's time to a file, until the function
// that it returns is called; to none if that has no name.
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

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}
