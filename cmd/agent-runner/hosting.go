package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host"
)

// envCacheDir names the directory of compiled modules.
const envCacheDir = "AGENT_RUNNER_CACHE"

// host creates the host with the user's cache and fault directories.
func (c *runCommand) host(ctx context.Context) (*host.Host, error) {
	h, _, err := newHost(ctx, c.env, c.chosen, host.Options{CacheDir: c.cacheDir, FaultDir: c.faultDir, Logger: c.logger()})
	return h, err
}

// newHost makes a host and returns its cache directory, if any. If the default cache
// directory cannot be used, the host has none.
func newHost(ctx context.Context, e *env, chosen bool, o host.Options) (h *host.Host, cacheDir string, err error) {
	o.CompileChild = e.compile
	if err := e.budget.apply(e, &o); err != nil {
		return nil, "", err
	}
	if !chosen {
		o.CacheDir = e.getenv(envCacheDir)
		chosen = o.CacheDir != ""
	}
	if !chosen {
		if user, err := os.UserCacheDir(); err == nil {
			o.CacheDir = filepath.Join(user, "agent-runner")
		}
	}
	if h, err = host.New(ctx, &o); err == nil || chosen {
		return h, o.CacheDir, err
	}
	o.Logger.Debug("not caching compiled modules", "reason", err)
	o.CacheDir = ""
	h, err = host.New(ctx, &o)
	return h, "", err
}

// closeHost closes the host. It waits at most a second for running guests.
func closeHost(h *host.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.Close(ctx)
}

// A noteHandler is an slog handler that writes records as notes on the screen.
type noteHandler struct {
	screen *screen
	level  slog.Level
	attrs  string
}

// Enabled implements [slog.Handler].
func (h *noteHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements [slog.Handler].
func (h *noteHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%q", a.Key, a.Value)
		return true
	})
	look := faint
	if r.Level >= slog.LevelWarn {
		look = amber
	}
	h.screen.note(look, "%s: %s%s", strings.ToLower(r.Level.String()), r.Message, b.String())
	return nil
}

// WithAttrs implements [slog.Handler].
func (h *noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	for _, a := range attrs {
		out.attrs += fmt.Sprintf(" %s=%q", a.Key, a.Value)
	}
	return &out
}

// WithGroup implements [slog.Handler]. It ignores groups, which the host does not use.
func (h *noteHandler) WithGroup(string) slog.Handler { return h }
