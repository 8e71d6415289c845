package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/telemetry"
)

// Where spans are sent, as OpenTelemetry has it.
const (
	envOTLP       = "OTEL_EXPORTER_OTLP_ENDPOINT" // /v1/traces is put behind it
	envOTLPTraces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envService    = "OTEL_SERVICE_NAME"
)

// maxFlush is how long the last spans may take at the end of the process.
const maxFlush = 5 * time.Second

// tracer sends spans to where the environment says; without that it is nil. flush
// sends the last ones.
func (e *env) tracer(ctx context.Context) (t chain.Tracer, flush func(), err error) {
	at := e.getenv(envOTLPTraces)
	if base := e.getenv(envOTLP); at == "" && base != "" {
		at = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if at == "" {
		return nil, func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at))
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%q: %w", envOTLP, at, err)
	}
	about := resource.NewSchemaless(semconv.ServiceName(cmp.Or(e.getenv(envService), "agent-runner")))
	sender := &spanSender{SpanExporter: exporter}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sender), sdktrace.WithResource(about))
	return telemetry.Spans(provider.Tracer("agent-runner")), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxFlush)
		defer cancel()
		if err := errors.Join(provider.Shutdown(ctx), sender.failed()); err != nil {
			fmt.Fprintf(e.err, "agent-runner: send spans to %s: %s\n", at, clean(err.Error()))
		}
	}, nil
}

// A spanSender sends spans, and keeps the last error for the one line that is said
// of it, instead of one for each batch.
type spanSender struct {
	sdktrace.SpanExporter
	mu  sync.Mutex
	err error
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	return nil
}

func (s *spanSender) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
