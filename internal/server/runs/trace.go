package runs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits on timelines.
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
	text, err := encodeTimeline(line)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&b)
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return t.AddTrace(ctx, line.Run, b.Bytes(), int64(len(text)))
}

// encodeTimeline returns a timeline as JSON of at most maxTrace bytes. It drops spans until it
// fits, the last ones first, so that the parents of the others remain.
func encodeTimeline(line *api.Timeline) ([]byte, error) {
	for {
		b, err := json.Marshal(line)
		if err != nil || len(b) <= maxTrace || len(line.Spans) == 0 {
			return b, err
		}
		fit := len(line.Spans) * maxTrace / len(b) * 9 / 10
		line.Dropped += len(line.Spans) - fit
		line.Spans = line.Spans[:fit]
	}
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

// traceBody describes the response in the OpenAPI document. The response itself is never completely
// in memory.
type traceBody struct {
	Timelines []*api.Timeline `json:"timelines" nullable:"false" doc:"One timeline for each time the run was started, resumed or taken over. Together they have at most 16 MiB; later ones are missing."`
}

func describeTrace(op *huma.Operation, registry huma.Registry) {
	op.Parameters = append(op.Parameters, runParameter())
	op.Responses["200"] = &huma.Response{Description: "The timelines", Content: map[string]*huma.MediaType{
		"application/json": {Schema: registry.Schema(reflect.TypeFor[traceBody](), true, "TraceBody")}}}
}

// waitForTimeline waits until a run that has ended here has stored its timeline, which it does last.
func (r *Service) waitForTimeline(ctx context.Context, c *httpapi.Caller, id string) error {
	l := r.Active.Get(c.Tenant.ID(), id)
	if l == nil {
		return nil
	}
	if !l.hasEnded() {
		info, err := c.Tenant.Run(ctx, id)
		if err != nil || info.Status == journal.StatusRunning {
			return err
		}
	}
	l.waitRemoved(ctx)
	return nil
}

// trace responds with the timelines of a run, without the operator's middlewares. It reads and
// writes one timeline at a time.
func (r *Service) trace(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	ctx, id := req.Context(), req.PathValue("run")
	if err := r.waitForTimeline(ctx, c, id); err != nil { // before the request takes a slot
		return err
	}
	t := &traceReader{runs: r, tenant: c.Tenant, run: id}
	var part []byte
	if err := c.Read(ctx, r.admission, func() (err error) {
		info, sizes, err := c.Tenant.Traces(ctx, id)
		if err != nil {
			return err
		}
		t.count, t.redactor = len(sizes), NewRedactor(info.Modules)
		c.Response.Force(largestTimeline(sizes))
		part, err = t.next(ctx)
		return err
	}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	separator := `{"timelines":[`
	for ; part != nil; separator = "," {
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		part = nil
		if err := r.admission.Read(ctx, c.Key.Tenant, false, func() (err error) {
			part, err = t.next(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(separator, ",")+"]}\n")
	return err
}

// largestTimeline returns the number of bytes that the largest timeline takes, given the sizes of
// all. A size of 0 is unknown, as for timelines that old versions stored, and counts as maxTrace.
func largestTimeline(sizes []int64) int {
	if slices.Contains(sizes, 0) {
		return maxTrace
	}
	return int(slices.Max(append(sizes, 0)))
}

// A traceReader reads the timelines of a run.
type traceReader struct {
	runs     *Service
	tenant   *store.Tenant
	run      string
	redactor *Redactor
	count    int // number of timelines
	read     int // number of timelines that were read
}

// next returns the JSON of the next timeline, or nil after the last one. It skips timelines that are
// not readable, such as those of older versions that are too large.
func (t *traceReader) next(ctx context.Context) ([]byte, error) {
	for t.read < t.count {
		b, err := t.tenant.Trace(ctx, t.run, t.read)
		if err != nil {
			return nil, err
		}
		t.read++
		line, err := readTimeline(b)
		if err != nil {
			t.runs.log.Warn("read a timeline", "tenant", t.tenant.ID(), "run", t.run, "part", t.read, "error", err)
			continue
		}
		t.redactor.spans(line)
		return abijson.Marshal(line)
	}
	return nil, nil
}
