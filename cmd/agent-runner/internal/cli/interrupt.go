package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// Interruptible returns a context that the first SIGINT or SIGTERM cancels, so that the command ends its
// work and reports the result. onSignal is called at the first signal. A second signal exits the process
// with ExitCanceled. The returned function restores the default handling of signals.
func Interruptible(ctx context.Context, onSignal func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
			onSignal()
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(ExitCanceled)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
