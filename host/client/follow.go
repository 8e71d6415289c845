package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/agent-runner/agent-runner/abi"
)

// Limits of the pause before Follow reconnects, and of the lines of a stream.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
	maxLine    = 64 << 20 // maximum line length in a stream, in bytes
)

// Follow yields the events of a run with numbers greater than after, until the run ends or pauses.
// If the connection breaks, Follow reconnects and continues after the last event, so that it yields
// each event exactly once. It stops after yielding an error. If the server stays unreachable, or
// responds with status 429 or 5xx, for [Options.Retry], the error is that of the last attempt: an
// [*UnreachableError] or an [*api.Problem].
func (c *Client) Follow(ctx context.Context, run string, after int64) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		f := &following{client: c, run: run, after: after, yield: yield}
		if err := f.all(ctx); err != nil && !f.left {
			yield(abi.Event{}, err)
		}
	}
}

// A following holds the state of Follow.
type following struct {
	client *Client
	run    string
	after  int64 // number of the last event that was yielded
	yield  func(abi.Event, error) bool

	last abi.EventType
	left bool // the caller stopped the iteration
}

// all yields all events, and reconnects as necessary.
func (f *following) all(ctx context.Context) error {
	pause, since := firstPause, time.Now()
	for {
		before := f.after
		over, err := f.once(ctx)
		switch {
		case over || f.left:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !again(err):
			return err
		}
		if f.after > before {
			pause, since = firstPause, time.Now()
		}
		wait := pause
		var p *api.Problem
		if errors.As(err, &p) && p.RetryAfter > 0 {
			wait = p.RetryAfter
		}
		if err != nil && time.Since(since)+wait > f.client.retry {
			return err
		}
		if err == nil {
			since = time.Now() // the server is reachable
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

// again reports whether a retry after err may succeed.
func again(err error) bool {
	var gone *UnreachableError
	var p *api.Problem
	return errors.As(err, &gone) || errors.As(err, &p) && (p.Status == http.StatusTooManyRequests || p.Status >= 500)
}

// once yields the events of one connection. over reports that no more events follow.
func (f *following) once(ctx context.Context) (over bool, err error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.after > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(f.after, 10))
	}
	res, err := f.client.send(ctx,
		&request{method: http.MethodGet, path: path("/v1/runs/%s/events", f.run), header: header})
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return true, nil
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return false, fmt.Errorf("%s returns %.80q instead of a stream of events; check the address", f.client.server, kind)
	}
	events := newReader(res.Body)
	for {
		e, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return f.last == abi.EventRunFinished || f.last == abi.EventRunPaused, nil
		case err != nil:
			return false, f.client.unreachable(ctx, err)
		}
		if len(e.data) == 0 {
			continue
		}
		event, err := decodeEvent(e.data)
		if err != nil {
			return false, err
		}
		if event.Seq <= f.after {
			continue // already yielded
		}
		f.after, f.last = event.Seq, event.Type
		if f.left = !f.yield(event, nil); f.left {
			return false, nil
		}
	}
}

// A serverEvent is one server-sent event.
type serverEvent struct {
	kind string
	data []byte
}

// A reader reads server-sent events.
type reader struct{ lines *bufio.Scanner }

func newReader(r io.Reader) *reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &reader{lines}
}

// next returns the next event. The error is [io.EOF] at the end of the stream,
// [io.ErrUnexpectedEOF] if the stream ends within an event, and [bufio.ErrTooLong] if a line
// or the data of an event exceeds maxLine.
func (r *reader) next() (*serverEvent, error) {
	e := &serverEvent{}
	some := false
	for r.lines.Scan() {
		line := bytes.TrimSuffix(r.lines.Bytes(), []byte("\r"))
		if len(line) == 0 {
			if e.data != nil || e.kind != "" {
				return e, nil
			}
			some = false
			continue
		}
		some = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.kind = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > maxLine {
				return nil, bufio.ErrTooLong
			}
			e.data = append(e.data, value...)
			if e.data == nil {
				e.data = []byte{}
			}
		}
	}
	switch {
	case r.lines.Err() != nil:
		return nil, r.lines.Err()
	case some:
		return nil, io.ErrUnexpectedEOF
	}
	return nil, io.EOF
}
