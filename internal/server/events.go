package server

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How streams of events are written.
const (
	streamPart = 32 << 10         // bytes of small events that are written together
	streamBeat = 15 * time.Second // after which one that has nothing to read hears of the connection
	elsewhere  = 250 * time.Millisecond
	pageOf     = 500 // events that are read from the store at once
)

// A stream is server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	part    time.Duration // that a client may take to read one
	failed  error
}

// newStream begins one.
func newStream(w http.ResponseWriter, part time.Duration) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies are to hand events on as they come
	s := &stream{w: w, control: http.NewResponseController(w), part: part}
	w.WriteHeader(http.StatusOK)
	s.write([]byte("retry: 1000\n\n"))
	return s
}

// write writes at once; a client that does not read in time is left.
func (s *stream) write(b []byte) {
	if s.failed != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.part))
	if _, s.failed = s.w.Write(b); s.failed == nil {
		s.failed = s.control.Flush()
	}
}

// wait waits for a change, and lets the connection live until there is one. It is
// false where the client is gone.
func (s *stream) wait(ctx context.Context, changed <-chan struct{}) bool {
	pulse := time.NewTicker(streamBeat)
	defer pulse.Stop()
	for {
		select {
		case <-changed:
			return true
		case <-pulse.C:
			s.write([]byte(": still here\n\n"))
		case <-ctx.Done():
			return false
		}
	}
}

// lines writes events, several small ones together, and returns the number of the
// last.
func (s *stream) lines(lines []line, after int64) int64 {
	var b bytes.Buffer
	for _, l := range lines {
		if l.data != nil {
			fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", l.seq, l.kind, l.data)
		}
		if b.Len() >= streamPart {
			s.write(b.Bytes())
			b.Reset()
		}
		after = l.seq
	}
	if b.Len() > 0 {
		s.write(b.Bytes())
	}
	return after
}

// A follower follows one run, whether it goes on here, elsewhere, or not at all.
type follower struct {
	runs   *runs
	tenant *store.Tenant
	run    string
	after  int64 // the number of the last event that it has
	hide   *hidden

	live *live // where it goes on here, or did
	last bool  // it has the last event that there is here
}

// more waits for events, and returns them; none when there are no more to come: the
// run has ended, or waits for answers. beat is called where nothing comes for long.
func (f *follower) more(ctx context.Context, beat func()) ([]line, error) {
	pulse := time.NewTicker(streamBeat)
	defer pulse.Stop()
	for {
		lines, changed, over, err := f.now(ctx)
		if err != nil || len(lines) > 0 || over {
			return lines, err
		}
		select {
		case <-changed:
		case <-pulse.C:
			beat()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// now returns what there is now: from memory, where the run goes on here, else from
// the store.
func (f *follower) now(ctx context.Context) (lines []line, changed <-chan struct{}, over bool, err error) {
	if l := f.runs.lives.get(f.tenant.ID(), f.run); l != nil {
		f.live = l
	}
	if f.live != nil {
		lines, changed, over, ok := f.live.since(f.after)
		switch {
		case ok && len(lines) > 0:
			f.last = lines[len(lines)-1].last()
			return f.taken(lines), nil, false, nil
		case f.last:
			return nil, nil, true, nil
		case ok && !over:
			return nil, changed, false, nil
		}
	}
	events, err := f.tenant.RunEvents(ctx, f.run, f.after, pageOf)
	if err != nil {
		return nil, nil, false, err
	}
	for i := range events {
		lines = append(lines, f.hide.line(&events[i]))
	}
	if len(lines) > 0 {
		return f.taken(lines), nil, false, nil
	}
	info, err := f.tenant.Run(ctx, f.run)
	if err != nil {
		return nil, nil, false, err
	}
	if info.Status != journal.StatusRunning && info.LastSeq <= f.after {
		return nil, nil, true, nil
	}
	select {
	case <-f.runs.server.Draining():
		return nil, nil, true, nil // the client comes again, to another server
	default:
	}
	soon := make(chan struct{})
	time.AfterFunc(elsewhere, func() { close(soon) })
	return nil, soon, false, nil
}

func (f *follower) taken(lines []line) []line {
	if len(lines) > 0 {
		f.after = lines[len(lines)-1].seq
	}
	return lines
}

// hidden are the entries that are the operator's: tenants learn nothing of their
// logs, faults and values.
type hidden struct{ entries map[string]bool }

// operators is the name that stands for all of them.
const operators = "operator"

// hiddenIn are those of a run.
func hiddenIn(pins []journal.Pin) *hidden {
	h := &hidden{map[string]bool{}}
	for _, p := range pins {
		if p.Ring != "tenant" {
			h.entries[p.Entry] = true
		}
	}
	return h
}

func (h *hidden) has(agentName, entry string) bool {
	return entry != "" && (h.entries[entry] || h.entries[agentName+"/"+entry])
}

// line is an event as the tenant is shown it; one that it is not shown has no data.
func (h *hidden) line(e *abi.Event) line {
	l := line{seq: e.Seq, kind: e.Type}
	shown := h.event(e)
	if shown == nil {
		return l
	}
	b, err := abi.Marshal(shown)
	if err != nil {
		return l
	}
	l.data = h.conceal(b)
	return l
}

// event is what the tenant is shown of an event; nil for nothing.
func (h *hidden) event(e *abi.Event) *abi.Event {
	if len(h.entries) == 0 {
		return e
	}
	if e.Message != nil && h.made(e.Message) {
		out := *e
		out.Message = h.message(e.Message)
		e = &out
	}
	if h.has(e.Agent, e.Entry) {
		return nil // its log lines, its faults, its limits
	}
	switch e.Type {
	case abi.EventChild:
		inner := h.event(e.Event)
		if inner == nil {
			return nil
		}
		out := *e
		out.Event = inner
		return &out
	case abi.EventRunFinished:
		return h.finished(e)
	case abi.EventRunPaused:
		out := *e
		out.Interrupts = h.pending(e.Interrupts)
		return &out
	case abi.EventToolCall, abi.EventToolResult:
		return h.tool(e)
	}
	return e
}

// tool is an event of a tool, which one of the entries may have called or answered.
func (h *hidden) tool(e *abi.Event) *abi.Event {
	out := *e
	if h.has("", e.Source) {
		out.Source = operators
	}
	if c := e.Call; c != nil && c.By != nil && h.has(e.Agent, c.By.Entry) {
		call, by := *c, *c.By
		by.Entry, by.Hook = operators, ""
		call.By, out.Call = &by, &call
	}
	return &out
}

// encoder returns one that puts into a protocol what the tenant is shown, and nothing
// else.
func (h *hidden) encoder(enc chain.Encoder) chain.Encoder {
	if enc == nil || len(h.entries) == 0 {
		return enc
	}
	return &concealing{enc, h}
}

type concealing struct {
	chain.Encoder
	hide *hidden
}

// Encode implements [chain.Encoder].
func (c *concealing) Encode(e abi.Event) []chain.Encoded {
	shown := c.hide.event(&e)
	if shown == nil {
		return nil
	}
	out := c.Encoder.Encode(*shown)
	for i := range out {
		out[i].JSON = c.hide.conceal(out[i].JSON)
	}
	return out
}

// made reports whether one of the entries made a message.
func (h *hidden) made(m *abi.Message) bool {
	entry, byModule := strings.CutPrefix(m.Origin, abi.OriginModule)
	return byModule && h.has("", entry)
}

// message is a message as the tenant is shown it.
func (h *hidden) message(m *abi.Message) *abi.Message {
	if !h.made(m) {
		return m
	}
	out := *m
	out.Origin = abi.OriginModule + operators
	return &out
}

func (h *hidden) messages(list []abi.Message) []abi.Message {
	out := make([]abi.Message, len(list))
	for i := range list {
		out[i] = *h.message(&list[i])
	}
	return out
}

func (h *hidden) finished(e *abi.Event) *abi.Event {
	out := *e
	out.Entries = nil
	for _, s := range e.Entries {
		if !h.has(s.Agent, s.Entry) {
			out.Entries = append(out.Entries, s)
		}
	}
	if h.has("", e.StoppedBy) {
		out.StoppedBy, out.Hook = operators, ""
	}
	if h.has("", e.Source) {
		out.Source = operators
	}
	if e.Error != nil {
		for name := range h.entries {
			if strings.Contains(e.Error.Message, name) { // its fault, in its own words
				out.Error = &abi.Error{Code: e.Error.Code, Message: "a module of the operator's failed"}
			}
		}
	}
	return &out
}

// conceal takes the names of the operator's entries out of a text, or out of JSON: of
// what models are told when a policy says no, for one. They are such that they stand
// there for nothing else, see [fleet.surround].
func (h *hidden) conceal(b []byte) []byte {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(h.entries))) { // the longer of two that begin alike first
		if strings.HasPrefix(name, operators+".") {
			b = bytes.ReplaceAll(b, []byte(name), []byte(operators))
		}
	}
	return b
}

// pending are interrupts, of which those of the operator's have only its reason.
func (h *hidden) pending(list []abi.Pending) []abi.Pending {
	out := append([]abi.Pending{}, list...)
	for i := range out {
		if h.has(out[i].Agent, out[i].Entry) {
			out[i].Entry = operators
		}
		asks := append([]abi.Ask{}, out[i].Asks...)
		for j := range asks {
			if h.has(out[i].Agent, asks[j].Entry) {
				asks[j].Entry = operators
			}
		}
		if len(asks) > 0 {
			out[i].Asks = asks
		}
	}
	return out
}

// events answers with the events of a run: a stream where the client takes one, else
// those that there are.
func (r *runs) events(w http.ResponseWriter, req *http.Request, c *Caller) error {
	id := req.PathValue("run")
	after, err := lastID(req)
	if err != nil {
		return err
	}
	info, err := r.find(req.Context(), c.Tenant, id)
	if err != nil {
		return err
	}
	f := &follower{runs: r, tenant: c.Tenant, run: id, after: after, hide: hiddenIn(info.Modules)}
	if !strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		return r.page(w, req, f, info.LastSeq)
	}
	if info.Status != journal.StatusRunning && after >= info.LastSeq && after > 0 {
		w.WriteHeader(http.StatusNoContent) // which tells browsers not to come again
		return nil
	}
	r.stream(w, req, f)
	return nil
}

// stream writes events until there are no more, the client leaves, or the server ends.
func (r *runs) stream(w http.ResponseWriter, req *http.Request, f *follower) {
	ctx := req.Context()
	if l := r.lives.get(f.tenant.ID(), f.run); l != nil {
		defer l.follow()()
	}
	s := newStream(w, r.server.times.part)
	after := f.after
	for s.failed == nil {
		lines, err := f.more(ctx, func() { s.write([]byte(": still here\n\n")) })
		if err != nil || len(lines) == 0 {
			return
		}
		after = s.lines(lines, after)
	}
}

// page answers with events as JSON; last is the number of the run's last one.
func (r *runs) page(w http.ResponseWriter, req *http.Request, f *follower, last int64) error {
	list, err := f.tenant.RunEvents(req.Context(), f.run, f.after, pageOf)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	var b bytes.Buffer
	b.WriteString(`{"events":[`)
	first := true
	for i := range list {
		l := f.hide.line(&list[i])
		if l.data == nil {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(l.data)
	}
	fmt.Fprintf(&b, `],"more":%v}`+"\n", len(list) > 0 && list[len(list)-1].Seq < last)
	_, err = w.Write(b.Bytes())
	return err
}

// lastID is the number of the last event that a client has.
func lastID(req *http.Request) (int64, error) {
	text := req.Header.Get("Last-Event-Id")
	if text == "" {
		text = req.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, problem(codeInvalid, "Last-Event-ID, or after, is %.40q; want the number of an event", text)
	}
	return n, nil
}
