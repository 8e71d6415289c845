package runs

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/sse"
)

// Limits on the number and the bytes of the events of a page.
const (
	pageSize     = 500
	maxPageBytes = 4 << 20
)

// sendLines sends events to a stream. It writes small events together and large ones without a copy.
func sendLines(s *sse.Stream, lines []Event) {
	var b bytes.Buffer
	for _, l := range lines {
		if l.data == nil {
			continue
		}
		if b.Len() > 0 && b.Len()+len(l.data) > maxChunkBytes {
			s.Send(b.Bytes())
			b.Reset()
		}
		fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: ", l.Seq, l.Type)
		if len(l.data) > maxChunkBytes {
			s.Send(b.Bytes(), l.data, []byte("\n\n"))
			b.Reset()
			continue
		}
		b.Write(l.data)
		b.WriteString("\n\n")
	}
	if b.Len() > 0 {
		s.Send(b.Bytes())
	}
}

// events responds with the events of a run: as a stream if the client accepts one, or else a
// page of JSON.
func (r *Service) events(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	id := req.PathValue("run")
	after, err := lastID(req)
	if err != nil {
		return err
	}
	info, err := r.Find(req.Context(), c, id)
	if err != nil {
		return err
	}
	f := r.Follow(c, info, after)
	if !strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		return r.page(w, req, c, f, info.LastSeq)
	}
	if info.Status != journal.StatusRunning && after >= info.LastSeq && after > 0 {
		w.WriteHeader(http.StatusNoContent) // browsers then do not reconnect
		return nil
	}
	if req.URL.Query().Get("activity") == "true" && c.Token == nil { // end users do not see modules
		f.watch = &watcher{runs: r, tenant: c.Tenant.ID(), run: id}
		defer f.watch.close()
	}
	r.stream(w, req, f)
	return nil
}

// stream sends events until the run ends or pauses, the client disconnects, or the server
// drains.
func (r *Service) stream(w http.ResponseWriter, req *http.Request, f *Follower) {
	ctx := req.Context()
	if l := r.Active.Get(f.tenant.ID(), f.run); l != nil {
		defer l.Follow()()
	}
	defer f.leavePoll()
	s := sse.New(w, r.options.Timeouts.Write)
	s.Retry()
	for s.Err == nil {
		lines, err := f.next(ctx, s)
		if err != nil || len(lines) == 0 {
			return
		}
		sendLines(s, f.shown(lines))
	}
}

// shown returns the events that the caller may see, in the caller's form.
func (f *Follower) shown(lines []Event) []Event {
	if f.token == nil {
		return lines
	}
	out := make([]Event, len(lines))
	for i := range lines {
		out[i] = Event{Seq: lines[i].Seq, Type: lines[i].Type, data: userEvent(&lines[i], f.token.Answers)}
	}
	return out
}

// page responds with a page of events as JSON. last is the number of the run's last event.
func (r *Service) page(w http.ResponseWriter, req *http.Request, c *httpapi.Caller, f *Follower, last int64) error {
	var b bytes.Buffer
	if err := c.Read(req.Context(), r.admission, func() error {
		err := f.encodePage(req.Context(), &b, last)
		f.response.Force(b.Cap())
		return err
	}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(b.Bytes())
	return err
}

// encodePage writes a page of events to b as JSON. The page says that more events follow if it ends
// before event number last.
func (f *Follower) encodePage(ctx context.Context, b *bytes.Buffer, last int64) error {
	list, err := f.tenant.RunEvents(ctx, f.run, f.after, pageSize, maxPageBytes)
	if err != nil {
		return err
	}
	b.WriteString(`{"events":[`)
	first := true
	for i := range list {
		l := f.shown([]Event{f.redactor.encode(&list[i])})[0]
		if l.data == nil {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(l.data)
	}
	fmt.Fprintf(b, `],"more":%v}`+"\n", len(list) > 0 && list[len(list)-1].Seq < last)
	return nil
}

// lastID returns the number of the last event that the client has received, or 0 if the request
// names none.
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
		return 0, httpapi.NewProblem(api.CodeInvalid, "Last-Event-ID, or after, is %.40q; want the number of an event", text)
	}
	return n, nil
}

// runParameter describes the path parameter "run" of a route that [httpapi.Router.Raw] registers.
func runParameter() *huma.Param {
	return &huma.Param{
		Name:        "run",
		In:          "path",
		Required:    true,
		Schema:      &huma.Schema{Type: "string", Pattern: "^run_[A-Za-z0-9_-]{1,80}$"},
		Description: "The run's id.",
	}
}

func describeEvents(op *huma.Operation, registry huma.Registry) {
	event := httpapi.EventSchema(registry)
	op.Parameters = append(op.Parameters, runParameter(), &huma.Param{
		Name:        "after",
		In:          "query",
		Schema:      &huma.Schema{Type: "integer"},
		Description: "Only events after this number, like Last-Event-ID.",
	}, &huma.Param{
		Name:        "Last-Event-ID",
		In:          "header",
		Schema:      &huma.Schema{Type: "integer"},
		Description: "The number of the last event that the client received.",
	})
	op.Parameters = append(op.Parameters, &huma.Param{
		Name:   "activity",
		In:     "query",
		Schema: &huma.Schema{Type: "boolean", Default: false},
		Description: "Whether a stream also has events of the type activity, without an id: a RunActivity, at most each 0.25 s " +
			"while modules run. They are not stored, and may be missing.",
	})
	registry.Schema(reflect.TypeFor[api.RunActivity](), true, "RunActivity")
	op.Responses["200"] = &huma.Response{Description: "The events", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: event},
		"application/json": {Schema: &huma.Schema{Type: "object", Required: []string{"events", "more"},
			Properties: map[string]*huma.Schema{
				"events": {Type: "array", Items: event},
				"more":   {Type: "boolean", Description: "Whether more events follow."}}}},
	}}
	op.Responses["204"] = &huma.Response{Description: "The run has ended, and the client has all its events."}
}
