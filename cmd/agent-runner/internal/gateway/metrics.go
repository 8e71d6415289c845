package gateway

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/host/telemetry"
)

// meter serves GET /metrics if the file has an address for metrics, and then also adds a registry and a
// tracer to the options of the gateway. The caller closes the returned server. If the file has no
// address, the server does not listen.
func (c *command) meter(f *gateway.File, o *gateway.Options) (*http.Server, error) {
	mux := http.NewServeMux()
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	if f.Metrics == "" {
		return s, nil
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	tracer, err := telemetry.Metrics(r)
	if err != nil {
		return nil, err
	}
	o.Metrics, o.Modules.Tracer = r, telemetry.Join(o.Modules.Tracer, tracer)
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	l, err := net.Listen("tcp", f.Metrics)
	if err != nil {
		return nil, cli.Usagef("metrics: cannot listen on %s: %w", f.Metrics, err)
	}
	c.log.Info("metrics", "address", "http://"+l.Addr().String()+"/metrics")
	go func() { _ = s.Serve(l) }()
	return s, nil
}
