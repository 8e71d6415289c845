package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that Ctrl-C ends, so that the run comes to
// its end and is reported; a second one ends the process. told is called at
// the first.
func interruptible(ctx context.Context, told func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
			told()
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(exitCanceled)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
