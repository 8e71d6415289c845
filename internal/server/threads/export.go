package threads

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// exportPage is the number of runs or messages that an export reads at once.
const exportPage = 500

func describeExport(op *huma.Operation, registry huma.Registry) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "thread", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}, Description: "The thread's id.",
	})
	record := registry.Schema(reflect.TypeFor[api.ThreadRecord](), true, "ThreadRecord")
	op.Responses["200"] = &huma.Response{
		Description: "One record a line",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: record}},
	}
}

// An exporter writes a thread page by page. A page is no longer in memory when the next one is read.
type exporter struct {
	*Threads
	caller   *httpapi.Caller
	thread   *store.Thread
	runs     *store.Filter      // the next page of runs; nil after the last one
	messages *store.MessagePage // the next page of messages; nil after the last one
}

// export writes the thread, its runs and its messages.
func (x *Threads) export(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	h, err := c.Thread(r.Context(), r.PathValue("thread"))
	if err != nil {
		return err
	}
	e := &exporter{
		Threads:  x,
		caller:   c,
		thread:   h,
		runs:     &store.Filter{Thread: h.ID, Oldest: true, Page: store.Page{Limit: exportPage}},
		messages: &store.MessagePage{Version: h.Version, Limit: exportPage, MaxBytes: maxPageBytes},
	}
	control := http.NewResponseController(w)
	var page bytes.Buffer
	if err := httpapi.WriteJSON(&page, api.ThreadRecord{Thread: showThread(c, h)}); err != nil {
		return err
	}
	for {
		done := e.runs == nil && e.messages == nil
		if done {
			err = httpapi.WriteJSON(&page, api.ThreadRecord{End: true})
		} else {
			err = c.Read(r.Context(), x.Admission, func() error { return e.next(r.Context(), &page) })
		}
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = control.SetWriteDeadline(time.Now().Add(x.Timeouts.Response))
		if _, err := w.Write(page.Bytes()); err != nil || done {
			return err
		}
		page = bytes.Buffer{}
	}
}

// next appends the next page to b.
func (e *exporter) next(ctx context.Context, b *bytes.Buffer) error {
	if e.runs != nil {
		list, next, err := e.caller.Tenant.Runs(ctx, e.runs)
		for i := 0; i < len(list) && err == nil; i++ {
			err = httpapi.WriteJSON(b, api.ThreadRecord{Run: e.Runs.Show(&list[i])})
		}
		if e.runs.After = next; next == nil {
			e.runs = nil
		}
		return err
	}
	rows, more, err := e.caller.Tenant.ThreadMessages(ctx, e.thread.ID, e.messages)
	if err != nil {
		return err
	}
	e.messages.From += int64(len(rows))
	if !more {
		if e.messages = nil; !e.complete(rows) {
			return journal.ErrThreadChanged
		}
	}
	shown, err := show(ctx, e.caller, rows)
	for i := 0; i < len(shown) && err == nil; i++ {
		err = httpapi.WriteJSON(b, api.ThreadRecord{Message: &shown[i]})
	}
	return err
}

// complete reports whether the last page of messages has the thread's last message. It does not if the
// thread was deleted meanwhile.
func (e *exporter) complete(rows []store.ThreadMessage) bool {
	if len(rows) == 0 {
		return e.thread.Messages == 0
	}
	return rows[len(rows)-1].Position == e.thread.Messages-1
}
