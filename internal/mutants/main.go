// Command mutants checks that the golden cases test the agent loop. It seeds faults into the loop,
// one at a time, and prints the cases that fail.
//
//	go run ./internal/mutants [-all] [-j N] [WORDS]
//
// With words, it seeds only faults whose name contains one of them. Each fault names the case that
// tests its rule. That case runs first. The command does not modify the sources: the compiler reads
// each fault through an overlay. The command fails if no case fails with a fault, or if a fault no
// longer matches its source.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

func main() {
	jobs := flag.Int("j", 2, "faults at once")
	all := flag.Bool("all", false, "run all cases for each fault, to see which others catch it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *jobs, *all, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the faults that words select, and prints the results. It returns an error if a case
// fails without a fault or if a fault is not caught.
func run(ctx context.Context, jobs int, all bool, words []string) error {
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	l := &workspace{root: ".", work: work, all: all}
	began := time.Now()
	red, err := l.redCases(ctx, "none", nil)
	switch {
	case err != nil:
		return fmt.Errorf("the cases without a fault: %w", err)
	case len(red) > 0:
		return fmt.Errorf("these cases are red without any fault: %s", strings.Join(red, ", "))
	}
	chosen := choose(words)
	results := l.try(ctx, jobs, chosen)
	survived, width := 0, 0
	for _, f := range chosen {
		width = max(width, len(f.name))
	}
	for i, f := range chosen {
		switch r := results[i]; {
		case r.err != nil:
			survived++
			fmt.Printf("SURVIVED  %-*s  %v\n", width, f.name, r.err)
		default:
			fmt.Printf("caught    %-*s  %s\n", width, f.name, few(r.red))
		}
	}
	fmt.Printf("%d faults, %d caught, in %s\n", len(chosen), len(chosen)-survived, time.Since(began).Round(time.Second))
	if survived > 0 {
		return fmt.Errorf("%d faults were not caught: write a case for each, or fit it to its source", survived)
	}
	return nil
}

// choose returns the faults whose name contains one of the words, or all faults if there are no
// words.
func choose(words []string) []fault {
	var out []fault
	for _, f := range faults {
		for _, w := range words {
			if strings.Contains(f.name, w) {
				out = append(out, f)
				break
			}
		}
	}
	if len(words) == 0 {
		return faults
	}
	return out
}

// few returns the names of the first three cases and the number of the others.
func few(cases []string) string {
	const limit = 3
	if len(cases) <= limit {
		return strings.Join(cases, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(cases[:limit], ", "), len(cases)-limit)
}

// A result holds the cases that failed with a fault, or the error if none did.
type result struct {
	red []string
	err error
}

// try runs the cases with each fault, with the given number of concurrent jobs.
func (l *workspace) try(ctx context.Context, jobs int, faults []fault) []result {
	out := make([]result, len(faults))
	slots := make(chan struct{}, max(1, jobs))
	var wg sync.WaitGroup
	for i, f := range faults {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			red, err := l.redCases(ctx, fmt.Sprint(i), &f)
			if err == nil && len(red) == 0 {
				err = errors.New("no case turns red")
			}
			out[i] = result{red, err}
		})
	}
	wg.Wait()
	return out
}
