package clusterchaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// registers records what clients saw of each run, as operations on a register whose value is the
// number of events in the run's journal. An append of an event takes from the start of the run until
// a follower gets the event. A read returns the number of events that a node lists.
type registers struct {
	mu      sync.Mutex
	began   time.Time
	of      map[string][]porcupine.Operation // by run
	started map[string]int64                 // when the runs that have not ended started
	clients int
}

func newRegisters() *registers {
	return &registers{began: time.Now(), of: map[string][]porcupine.Operation{}, started: map[string]int64{}}
}

func (r *registers) now() int64 { return time.Since(r.began).Nanoseconds() }

// start records that a run exists.
func (r *registers) start(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started[run] = r.now()
}

// end records that a run has ended.
func (r *registers) end(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.started, run)
}

// seen records that a follower got an event.
func (r *registers) seen(run string, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(run, r.started[run], seq, 0)
}

// add records an operation of a run that began at call and returns now. The input of an append is the
// number of the event, and its output 0. The input of a read is 0, and its output the number of events
// that the read returned.
func (r *registers) add(run string, call, input, output int64) {
	r.clients++ // each operation has a client of its own, since appends of a run overlap
	r.of[run] = append(r.of[run], porcupine.Operation{
		ClientId: r.clients, Input: input, Call: call, Output: output, Return: r.now(),
	})
}

// readAll reads runs in progress until ctx is done, each at nodes that count chooses.
func (r *registers) readAll(ctx context.Context, count func(ctx context.Context, run string) (int64, error)) {
	for ctx.Err() == nil {
		r.mu.Lock()
		run := ""
		for id := range r.started {
			if run == "" || rand.N(len(r.started)) == 0 {
				run = id
			}
		}
		r.mu.Unlock()
		call := r.now()
		if run != "" {
			if n, err := count(ctx, run); err == nil {
				r.mu.Lock()
				r.add(run, call, 0, n)
				r.mu.Unlock()
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// check returns an error for each run whose operations no register could have answered.
func (r *registers) check() (reads int, err error) {
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			events, seq := state.(int64), input.(int64)
			if seq == 0 {
				return events == output.(int64), state
			}
			return seq == events+1, seq
		},
	}
	var failed []error
	for run, operations := range r.of {
		for _, o := range operations {
			if o.Input == int64(0) {
				reads++
			}
		}
		if result := porcupine.CheckOperationsTimeout(model, operations, time.Minute); result != porcupine.Ok {
			failed = append(failed, fmt.Errorf("run %s: its %d operations are %s", run, len(operations), result))
		}
	}
	return reads, errors.Join(failed...)
}
