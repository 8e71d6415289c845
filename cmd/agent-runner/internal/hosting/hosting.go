// Package hosting contains the flags and environment variables that configure hosts, stores,
// recordings and tracing. Commands that run modules share it.
package hosting

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
)

// EnvCacheDir names the environment variable with the directory of compiled modules.
const EnvCacheDir = "AGENT_RUNNER_CACHE"

// NewHost creates a host and returns its cache directory, or "" if it has none. chosen reports
// whether the user chose o.CacheDir. Otherwise the directory is the value of EnvCacheDir, or else a
// default. If the default directory cannot be used, the host has no cache directory. Any other
// unusable directory is an error.
func NewHost(ctx context.Context, e *cli.Env, chosen bool, o host.Options) (h *host.Host, cacheDir string, err error) {
	o.CompileChild = e.Compile
	if err := applyBudget(e, &o); err != nil {
		return nil, "", err
	}
	if !chosen {
		o.CacheDir = e.Getenv(EnvCacheDir)
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

// CloseHost closes the host. It waits at most a second for running guests.
func CloseHost(h *host.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.Close(ctx)
}
