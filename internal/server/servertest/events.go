package servertest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
)

// An Event is an event of a stream of server-sent events.
type Event struct{ ID, Kind, Data string }

// Events reads a stream of events to its end.
func (f *Fixture) Events(method, path, key string, body any, header ...string) []Event {
	f.T.Helper()
	r := f.Send(method, path, key, body, append(header, "Accept", "text/event-stream")...)
	require.Equal(f.T, 200, r.Status, "%s", r.Body)
	require.Equal(f.T, "text/event-stream", r.Header.Get("Content-Type"))
	return ParseEvents(f.T, string(r.Body))
}

// ParseEvents parses the text of a stream.
func ParseEvents(t *testing.T, text string) (out []Event) {
	t.Helper()
	var now Event
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			now.ID = value
		case "event":
			now.Kind = value
		case "data":
			now.Data = value
		case "":
			if now.Kind != "" {
				out = append(out, now)
			}
			now = Event{}
		}
	}
	return out
}

// Kinds returns the kinds of events, with consecutive events of a kind as one.
func Kinds(events []Event) (out []string) {
	for _, e := range events {
		if len(out) == 0 || out[len(out)-1] != e.Kind {
			out = append(out, e.Kind)
		}
	}
	return out
}

// Finished waits until a run has finished, and returns it.
func (f *Fixture) Finished(key, id string) *api.Run {
	f.T.Helper()
	var run api.Run
	require.Eventually(f.T, func() bool {
		f.OK("GET", "/v1/runs/"+id, key, nil, &run)
		return run.Status == "finished"
	}, 2*time.Minute, 5*time.Millisecond)
	return &run
}

// A Stream is a stream of events that is being read. Done is closed at its end, and then Events has its
// events.
type Stream struct {
	Events []Event
	Done   chan struct{}
}

// Follow reads a run's events with numbers greater than after, or all of them if after is empty,
// until the stream ends for any reason.
func (f *Fixture) Follow(key, run, after string) *Stream {
	f.T.Helper()
	req, err := http.NewRequestWithContext(f.T.Context(), "GET", f.URL+"/v1/runs/"+run+"/events", nil)
	require.NoError(f.T, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // the goroutine below closes it
	require.NoError(f.T, err)
	x := &Stream{Done: make(chan struct{})}
	go func() {
		defer close(x.Done)
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if i := strings.LastIndex(string(b), "\n\n"); i >= 0 { // an incomplete event does not count
			x.Events = ParseEvents(f.T, string(b[:i+2]))
		}
	}()
	return x
}

// Ended reports whether the stream has ended.
func (x *Stream) Ended() bool {
	select {
	case <-x.Done:
		return true
	default:
		return false
	}
}

// Last returns the id of the last event, or "" if there is none.
func (x *Stream) Last() string {
	if len(x.Events) == 0 {
		return ""
	}
	return x.Events[len(x.Events)-1].ID
}
