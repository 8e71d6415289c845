package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientHeader = "00-" + clientTrace + "-00f067aa0ba902b7-01"
)

// TestSpans checks that a request has a span in the client's trace, with spans for its modules and the
// upstream, and that the upstream gets the trace's headers only with TraceUpstream.
func TestSpans(t *testing.T) {
	for name, c := range map[string]struct {
		upstream bool
		mws      []*native.Middleware
	}{
		"no modules": {}, "modules": {false, []*native.Middleware{reader()}},
		"upstream": {true, nil}, "upstream and modules": {true, []*native.Middleware{reader()}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := tracetest.NewInMemoryExporter()
			tracer := telemetry.Spans(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)).Tracer("test"))
			u := newUpstream(t, answers(streamed+endStop))
			g := newGateway(t, u, func(o *Options) {
				o.Tracer, o.TraceUpstream = tracer, c.upstream
				if o.Routes[0].Chain != nil {
					o.Routes[0].Chain = o.Routes[0].Chain.With(hook.Options{Tracer: tracer})
				}
			}, c.mws...)
			status, _, _ := g.ask(t, question, "Traceparent", clientHeader, "Baggage", "a=b")
			require.Equal(t, 200, status)
			spans := map[string]tracetest.SpanStub{}
			require.Eventually(t, func() bool {
				for _, s := range kept.GetSpans() {
					spans[s.Name+" "+s.SpanKind.String()] = s
				}
				return spans["chat m-1 server"].Name != ""
			}, 5e9, 1e6)
			request, call := spans["chat m-1 server"], spans["chat m-1 client"]
			require.Equal(t, clientTrace, request.SpanContext.TraceID().String())
			require.Equal(t, "00f067aa0ba902b7", request.Parent.SpanID().String())
			require.Equal(t, request.SpanContext.SpanID(), call.Parent.SpanID())
			if len(c.mws) > 0 {
				require.Equal(t, request.SpanContext.SpanID(), spans["after_model m1 internal"].Parent.SpanID())
			}
			about := map[string]any{}
			for _, a := range request.Attributes {
				about[string(a.Key)] = a.Value.AsInterface()
			}
			require.Equal(t, "m-1", about["gen_ai.request.model"])
			require.Equal(t, int64(5), about["gen_ai.usage.output_tokens"])
			sent := u.headers[0]
			if !c.upstream {
				require.Empty(t, sent.Get("Traceparent")+sent.Get("Baggage"))
				return
			}
			require.Equal(t, "00-"+clientTrace+"-"+call.SpanContext.SpanID().String()+"-01", sent.Get("Traceparent"))
			require.Equal(t, "a=b", sent.Get("Baggage"))
		})
	}
}

// TestFailedSpan checks that the span of a request that a module stops has an error.
func TestFailedSpan(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	tracer := telemetry.Spans(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)).Tracer("test"))
	u := newUpstream(t, answers(whole))
	g := newGateway(t, u, func(o *Options) { o.Tracer = tracer }, gate(abi.DecideStop, "no"))
	g.ask(t, "{\"model\":\"m-1\"}", "Traceparent", "nonsense")
	require.Eventually(t, func() bool { return len(kept.GetSpans()) == 1 }, 5e9, 1e6)
	s := kept.GetSpans()[0]
	require.Equal(t, trace.SpanKindServer, s.SpanKind)
	require.Equal(t, "invalid_request", s.Status.Description)
	require.False(t, s.Parent.IsValid())
}
