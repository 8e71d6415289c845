// Package notify passes hints with PostgreSQL's LISTEN and NOTIFY, through the database that the
// servers share. It needs no other component. All hints use one channel, and each server receives
// all of them. It supports about 2,000 hints per second, since a transaction with a
// NOTIFY takes a lock of the whole PostgreSQL server when it commits.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/internal/hints"
)

const (
	channel   = "agent_runner_hints"
	maxBytes  = 7800 // PostgreSQL's limit of a payload is 8000 bytes, with the topic
	maxQueued = 4096 // hints that wait to be sent
	maxBatch  = 64   // hints that one statement sends

	connectTimeout = 5 * time.Second
	sendTimeout    = 2 * time.Second
	minRetry       = 100 * time.Millisecond
	maxRetry       = 2 * time.Second
	// keepAlive is the time without a hint after which the listener asks whether its connection
	// still works.
	keepAlive = 10 * time.Second
)

// A Bus passes hints through a PostgreSQL database, with two connections of its own.
type Bus struct {
	config      *pgx.ConnConfig
	log         *slog.Logger
	subscribers hints.Subscribers
	queue       chan string // payloads
	stop        context.CancelFunc
	done        sync.WaitGroup
}

// Open returns a bus through the database at the URL. Open does not connect: the bus connects in the
// background, and again whenever a connection fails.
func Open(url string, log *slog.Logger) (*Bus, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open hints: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "agent-runner hints"
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	ctx, stop := context.WithCancel(context.Background())
	b := &Bus{config: config, log: log, queue: make(chan string, maxQueued), stop: stop}
	b.done.Go(func() { b.keep(ctx, "listen for hints", b.listen) })
	b.done.Go(func() { b.keep(ctx, "send hints", b.send) })
	return b, nil
}

// keep calls use with a connection until ctx is done. After each failure it calls use with a new
// connection.
func (b *Bus) keep(ctx context.Context, what string, use func(context.Context, *pgx.Conn) error) {
	retry := minRetry
	for ctx.Err() == nil {
		start := time.Now()
		err := b.connected(ctx, use)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > maxRetry {
			retry = minRetry
		}
		b.log.Warn(what+": hints are late until the connection is back", "error", err)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		retry = min(2*retry, maxRetry)
	}
}

// connected calls use with a new connection, and closes it.
func (b *Bus) connected(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return use(ctx, conn)
}

// listen passes the hints of a connection to the subscribers until the connection fails.
func (b *Bus) listen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		n, err := waitForHint(ctx, conn)
		if err != nil {
			return err
		}
		if topic, hint, ok := strings.Cut(n, "\n"); ok {
			b.subscribers.Send(topic, []byte(hint))
		}
	}
}

// waitForHint returns the next payload of a connection. While it waits, it checks every keepAlive
// that the connection still works.
func waitForHint(ctx context.Context, conn *pgx.Conn) (string, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, keepAlive)
		n, err := conn.WaitForNotification(waiting)
		late := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return n.Payload, nil
		case !late:
			return "", err
		}
		asking, cancel := context.WithTimeout(ctx, sendTimeout)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return "", err
		}
	}
}

// send sends queued hints until the connection fails. The hints of a failed statement are lost.
func (b *Bus) send(ctx context.Context, conn *pgx.Conn) error {
	for {
		var batch []string
		select {
		case p := <-b.queue:
			batch = append(batch, p)
		case <-ctx.Done():
			return ctx.Err()
		}
		for len(batch) < maxBatch {
			select {
			case p := <-b.queue:
				batch = append(batch, p)
				continue
			default:
			}
			break
		}
		sending, cancel := context.WithTimeout(ctx, sendTimeout)
		_, err := conn.Exec(sending, "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p", channel, batch)
		cancel()
		if err != nil {
			return err
		}
	}
}

// Publish implements [hints.Bus].
func (b *Bus) Publish(topic string, hint []byte) error {
	if err := hints.Check(topic, hint, maxBytes); err != nil {
		return err
	}
	select {
	case b.queue <- topic + "\n" + string(hint):
	default: // too many are waiting
	}
	return nil
}

// Subscribe implements [hints.Bus].
func (b *Bus) Subscribe(topic string, receive func([]byte)) (cancel func(), err error) {
	if err := hints.CheckTopic(topic); err != nil {
		return nil, err
	}
	return b.subscribers.Add(topic, receive), nil
}

// SubscribeGroup implements [hints.Bus]. Each hint reaches all subscribers of the group.
func (b *Bus) SubscribeGroup(topic, group string, receive func([]byte)) (cancel func(), err error) {
	if err := hints.CheckTopic(group); err != nil {
		return nil, err
	}
	return b.Subscribe(topic, receive)
}

// MaxBytes implements [hints.Bus].
func (b *Bus) MaxBytes() int { return maxBytes }

// Close implements [hints.Bus]. Hints that are waiting to be sent are lost.
func (b *Bus) Close() error {
	b.stop()
	b.done.Wait()
	return nil
}
