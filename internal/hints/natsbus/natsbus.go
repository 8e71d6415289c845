// Package natsbus passes hints with core NATS: through a NATS server inside this process, which forms
// a cluster with those of the other servers, or through existing NATS servers. It uses no
// JetStream and stores nothing.
package natsbus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/agent-runner/agent-runner/internal/hints"
)

const (
	maxBytes       = 512 << 10 // NATS's default limit is 1 MiB
	connectTimeout = 5 * time.Second
	pingInterval   = 5 * time.Second
	reconnectWait  = 250 * time.Millisecond
	// pendingHints and pendingBytes limit the hints that wait for a subscriber. Further hints are
	// dropped.
	pendingHints = 8192
	pendingBytes = 16 << 20
)

// Options configure a [Bus]. Exactly one of URL and Cluster is required.
type Options struct {
	// URL has the addresses of existing NATS servers, separated by commas, such as
	// nats://user:password@10.0.0.5:4222 or tls://nats.example.com.
	URL string
	// Cluster makes the bus start a NATS server in this process.
	Cluster *Cluster
	// TLS configures connections to the servers of URL. By default, a tls:// URL uses the system's
	// certificates.
	TLS *tls.Config
	// Prefix is the first part of all subjects, so that several deployments can share the servers of
	// URL. The default is agent_runner.
	Prefix string
	// Logger receives records of lost and restored connections. The default is [slog.DiscardHandler].
	Logger *slog.Logger
}

// A Bus passes hints with core NATS. [Open] returns one.
type Bus struct {
	conn     *nats.Conn
	embedded *server.Server // nil with URL
	prefix   string
}

// Open starts the embedded server, if there is one, and returns a bus. A bus connects to the
// servers of URL in the background, and again whenever the connection fails.
func Open(o *Options) (*Bus, error) {
	if (o.URL == "") == (o.Cluster == nil) {
		return nil, errors.New("open hints: want the URL of NATS servers, or a cluster of embedded ones")
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{prefix: o.Prefix}
	if b.prefix == "" {
		b.prefix = "agent_runner"
	}
	if err := hints.CheckTopic(b.prefix); err != nil {
		return nil, fmt.Errorf("open hints: prefix: %w", err)
	}
	options := []nats.Option{
		nats.Name("agent-runner"), nats.Timeout(connectTimeout), nats.PingInterval(pingInterval),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.RetryOnFailedConnect(true),
		nats.ReconnectBufSize(-1), // drop hints that are published while disconnected
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost: hints are dropped until it is back", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("hints were dropped", "error", err)
		}),
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS))
	}
	url := o.URL
	if o.Cluster != nil {
		embedded, inProcess, err := startServer(o.Cluster, log)
		if err != nil {
			return nil, fmt.Errorf("open hints: %w", err)
		}
		url = nats.DefaultURL // not used: the connection is in process
		b.embedded, options = embedded, append(options, inProcess...)
	}
	var err error
	if b.conn, err = nats.Connect(url, options...); err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("open hints: connect to NATS: %w", err)
	}
	return b, nil
}

func (b *Bus) subject(topic string) string { return b.prefix + "." + topic }

// Publish implements [hints.Bus].
func (b *Bus) Publish(topic string, hint []byte) error {
	if err := hints.Check(topic, hint, maxBytes); err != nil {
		return err
	}
	_ = b.conn.Publish(b.subject(topic), hint) // fails if the connection is lost; hints need not arrive
	return nil
}

// Subscribe implements [hints.Bus].
func (b *Bus) Subscribe(topic string, receive func([]byte)) (cancel func(), err error) {
	if err := hints.CheckTopic(topic); err != nil {
		return nil, err
	}
	return subscription(b.conn.Subscribe(b.subject(topic), func(m *nats.Msg) { receive(m.Data) }))
}

// SubscribeGroup implements [hints.Bus]. Each hint reaches one subscriber of the group.
func (b *Bus) SubscribeGroup(topic, group string, receive func([]byte)) (cancel func(), err error) {
	if err := errors.Join(hints.CheckTopic(topic), hints.CheckTopic(group)); err != nil {
		return nil, err
	}
	return subscription(b.conn.QueueSubscribe(b.subject(topic), group, func(m *nats.Msg) { receive(m.Data) }))
}

// subscription bounds a subscription, and returns the function that ends it.
func subscription(s *nats.Subscription, err error) (func(), error) {
	if err == nil {
		err = s.SetPendingLimits(pendingHints, pendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to hints: %w", err)
	}
	return func() { _ = s.Unsubscribe() }, nil
}

// MaxBytes implements [hints.Bus].
func (b *Bus) MaxBytes() int { return maxBytes }

// Close implements [hints.Bus]. It stops the embedded server.
func (b *Bus) Close() error {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.embedded != nil {
		b.embedded.Shutdown()
		b.embedded.WaitForShutdown()
	}
	return nil
}
