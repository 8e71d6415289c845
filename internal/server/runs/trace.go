package runs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits of timelines.
const (
	traceTimeout = 10 * time.Second // for storing a timeline
	maxTrace     = 4 << 20          // bytes, uncompressed
)

// Timelines returns a tracer that persists the timelines of a tenant's runs.
func Timelines(t *store.Tenant, log *slog.Logger) tracing.Tracer {
	return telemetry.Timelines(func(ctx context.Context, line *api.Timeline) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceTimeout)
		defer cancel()
		if err := storeTimeline(ctx, t, line); err != nil && !errors.Is(err, journal.ErrNoRun) {
			log.Warn("store the timeline of a run", "tenant", t.ID(), "run", line.Run, "error", err)
		}
	})
}

// gzipWriters reuses writers, because each takes nearly 1 MB and each run has a timeline.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func storeTimeline(ctx context.Context, t *store.Tenant, line *api.Timeline) error {
	var b bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&b)
	if err := json.NewEncoder(z).Encode(line); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return t.AddTrace(ctx, line.Run, b.Bytes())
}

func readTimeline(b []byte) (*api.Timeline, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxTrace))
	if err != nil {
		return nil, err
	}
	var line api.Timeline
	return &line, json.Unmarshal(text, &line)
}

type traceOutput struct {
	Body struct {
		Timelines []*api.Timeline `json:"timelines" nullable:"false" doc:"One timeline for each time the run was started, resumed or taken over."`
	}
}

// waitForTimeline waits until a run that has ended here has stored its timeline, which it does last.
func (r *Service) waitForTimeline(ctx context.Context, c *httpapi.Caller, in *runPath) error {
	l := r.Active.Get(c.Tenant.ID(), in.Run)
	if l == nil {
		return nil
	}
	if !l.hasEnded() {
		info, err := c.Tenant.Run(ctx, in.Run)
		if err != nil || info.Status == journal.StatusRunning {
			return err
		}
	}
	l.waitRemoved(ctx)
	return nil
}

// trace responds with the timelines of a run, without the operator's middlewares.
func (r *Service) trace(ctx context.Context, c *httpapi.Caller, in *runPath) (*traceOutput, error) {
	info, err := c.Tenant.Run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	parts, err := c.Tenant.Traces(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	hide := NewRedactor(info.Modules)
	out := &traceOutput{}
	out.Body.Timelines = []*api.Timeline{}
	for _, b := range parts {
		line, err := readTimeline(b)
		if err != nil {
			return nil, fmt.Errorf("read timeline of run %s: %w", in.Run, err)
		}
		hide.spans(line)
		out.Body.Timelines = append(out.Body.Timelines, line)
	}
	return out, nil
}
