package hosting

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

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/agent-runner/agent-runner/host/telemetry"
)

// OpenTelemetry's environment variables for exporting spans.
const (
	EnvOTLP       = "OTEL_EXPORTER_OTLP_ENDPOINT" // without /v1/traces
	EnvOTLPTraces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envService    = "OTEL_SERVICE_NAME"
)

// flushTimeout bounds sending the last spans at exit.
const flushTimeout = 5 * time.Second

// NewTracer returns a tracer that exports spans to the endpoint in the environment, or nil if the
// environment names none. flush sends the remaining spans, and prints an error if spans could not
// be sent.
func NewTracer(ctx context.Context, e *cli.Env) (t tracing.Tracer, flush func(), err error) {
	at := e.Getenv(EnvOTLPTraces)
	if base := e.Getenv(EnvOTLP); at == "" && base != "" {
		at = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if at == "" {
		return nil, func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at))
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%q: %w", EnvOTLP, at, err)
	}
	about := resource.NewSchemaless(semconv.ServiceName(cmp.Or(e.Getenv(envService), "agent-runner")))
	sender := &spanSender{SpanExporter: exporter}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sender), sdktrace.WithResource(about))
	return telemetry.Spans(provider.Tracer("agent-runner")), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := errors.Join(provider.Shutdown(ctx), sender.failed()); err != nil {
			fmt.Fprintf(e.Err, "agent-runner: send spans to %s: %s\n", at, cli.Clean(err.Error()))
		}
	}, nil
}

// A spanSender exports spans and records the last error, so that the command reports it
// once instead of for each batch.
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
