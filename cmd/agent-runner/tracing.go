package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return telemetry.Spans(provider.Tracer("agent-runner")), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxFlush)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			fmt.Fprintf(e.err, "agent-runner: spans were not sent to %s: %s\n", at, clean(err.Error()))
		}
	}, nil
}
