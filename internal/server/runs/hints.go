package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// Topics of hints about runs. The hints of topicCancel and topicWaiting have no content.
const (
	topicCancel  = "runs.cancel"  // a run was canceled in the database
	topicWaiting = "runs.waiting" // runs can be claimed
	topicFollow  = "runs.follow"  // the id of a run that another server follows
	topicWatch   = "runs.watch"   // the id of a run whose activity another server shows
	topicActive  = "active."      // followed by the id of a run: a snapshot of its activity
	topicEvents  = "run."         // followed by the id of a run: one of its events
)

const (
	// followTTL is the time for which a server sends the events of a run after another server asked
	// for them. Servers with followers ask every followInterval.
	followTTL      = 5 * time.Second
	followInterval = 2 * time.Second

	// maxHinted and maxHintedBytes limit the events from hints that wait for the followers of a run.
	// Followers read others from the store.
	maxHinted      = 256
	maxHintedBytes = 32 << 10
)

// A hintedEvent is an event of a run, as tenants see it, in a hint. The event is in the store already.
type hintedEvent struct {
	Seq  int64           `json:"seq"`
	Type abi.EventType   `json:"type"`
	Data json.RawMessage `json:"data,omitempty"` // null if the tenant must not see the event
	Read bool            `json:"read,omitempty"` // the event is too large for a hint, and is read from the store
}

// A broadcast sends the events of a run to other servers while these ask for them.
type broadcast struct {
	send  func(hint []byte)
	limit int          // size of a hint
	until atomic.Int64 // Unix time in nanoseconds
}

// ask makes b send events for the time followTTL.
func (b *broadcast) ask() { b.until.Store(time.Now().Add(followTTL).UnixNano()) }

// event sends an event if another server has asked for events within followTTL.
func (b *broadcast) event(l *Event) {
	if b == nil || b.until.Load() < time.Now().UnixNano() {
		return
	}
	text, err := encodeHint(&hintedEvent{Seq: l.Seq, Type: l.Type, Data: l.data})
	if err != nil || len(text) > b.limit {
		b.number(l)
		return
	}
	b.send(text)
}

// number sends only the number of an event. Followers then read the event from the store.
func (b *broadcast) number(l *Event) {
	if text, err := encodeHint(&hintedEvent{Seq: l.Seq, Type: l.Type, Read: true}); err == nil {
		b.send(text)
	}
}

// encodeHint returns the JSON of an event's hint. Unlike [json.Marshal], it does not escape <, > and &
// in Data.
func encodeHint(e *hintedEvent) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// newBroadcast returns the broadcast of a run that is in progress here.
func (r *Service) newBroadcast(run string) *broadcast {
	return &broadcast{
		limit: r.options.Hints.MaxBytes(),
		send:  func(hint []byte) { r.hint(topicEvents+run, hint) },
	}
}

// hint sends a hint to the other servers.
func (r *Service) hint(topic string, hint []byte) {
	if err := r.options.Hints.Publish(topic, hint); err != nil {
		r.log.Error("send a hint", "topic", topic, "error", err)
	}
}

// Broadcast makes runs in progress here send their events and their activity to the servers that follow
// them, until ctx is done.
func (r *Service) Broadcast(ctx context.Context) {
	answers := map[string]func(*ActiveRun){topicFollow: (*ActiveRun).announce, topicWatch: r.sendActivity}
	for topic, answer := range answers {
		stop, err := r.options.Hints.Subscribe(topic, func(hint []byte) {
			if l := r.Active.find(string(hint)); l != nil {
				answer(l)
			}
		})
		if err != nil {
			r.log.Error("subscribe to followers", "error", err)
			return
		}
		defer stop()
	}
	<-ctx.Done()
}

// hinted holds the latest events of a run from hints. The zero value has none.
type hinted struct {
	tail  []Event // without gaps
	bytes int
	last  int64 // the number of the newest event, which may be in the store only
}

// add adds the event of a hint, and reports whether it is new.
func (h *hinted) add(text []byte) bool {
	var e hintedEvent
	if json.Unmarshal(text, &e) != nil || e.Seq <= h.last {
		return false
	}
	if e.Seq != h.last+1 || e.Read {
		h.tail, h.bytes = nil, 0
	}
	h.last = e.Seq
	if e.Read {
		return true
	}
	l := Event{Seq: e.Seq, Type: e.Type, data: e.Data}
	h.tail, h.bytes = append(h.tail, l), h.bytes+l.size()
	for len(h.tail) > maxHinted || h.bytes > maxHintedBytes && len(h.tail) > 0 {
		h.bytes -= h.tail[0].size()
		h.tail[0] = Event{}
		h.tail = h.tail[1:]
	}
	return true
}

// since returns a batch of the events after event number after, or nil if it does not have the next
// event.
func (h *hinted) since(after int64) []Event {
	if len(h.tail) == 0 || h.tail[0].Seq > after+1 || h.last <= after {
		return nil
	}
	from := h.tail[after+1-h.tail[0].Seq:]
	return slices.Clone(from[:min(len(from), maxBatch)])
}
