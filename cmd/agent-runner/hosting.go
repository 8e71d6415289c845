package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/agent-runner/agent-runner/host"
)

// envCacheDir names the directory of compiled modules.
const envCacheDir = "AGENT_RUNNER_CACHE"

// newHost makes a host and returns its cache directory, if any. If the default cache
// directory cannot be used, the host has none.
func newHost(ctx context.Context, e *env, chosen bool, o host.Options) (h *host.Host, cacheDir string, err error) {
	o.CompileChild = e.compile
	if err := applyBudget(e, &o); err != nil {
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
