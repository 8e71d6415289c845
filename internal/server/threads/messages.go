package threads

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// maxPageBytes is the number of bytes at which a page of messages ends.
const maxPageBytes = 2 << 20

type (
	messagesInput struct {
		ThreadPath
		Limit int `query:"limit" default:"100" minimum:"1" maximum:"500" doc:"Maximum number of messages. A page of large messages has fewer."`
		httpapi.CursorInput
	}
	messagesOutput struct {
		Body struct {
			Messages []api.ThreadMessage `json:"messages" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// messages returns a page of the messages of a thread. Its cursor has the version of the messages in
// place of a time, so that a run that ends between two pages does not change the next page.
func (x *Threads) messages(ctx context.Context, c *httpapi.Caller, in *messagesInput) (*messagesOutput, error) {
	h, err := c.Thread(ctx, in.Thread)
	if err != nil {
		return nil, err
	}
	list := httpapi.ListName(fmt.Sprintf("%s %s", httpapi.ListMessages, h.ID))
	at, err := in.Page(list, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	page := &store.MessagePage{Version: h.Version, Limit: in.Limit, MaxBytes: maxPageBytes}
	if at.After != nil {
		page.From, _ = strconv.ParseInt(at.After.Name, 10, 64)
		page.Version = 0
		if !at.After.Created.IsZero() {
			page.Version = at.After.Created.UnixMilli()
		}
	}
	if err := c.Response.Set(int(min(h.Bytes, 3*maxPageBytes))); err != nil {
		return nil, err
	}
	rows, more, err := c.Tenant.ThreadMessages(ctx, h.ID, page)
	if err != nil {
		return nil, err
	}
	out := &messagesOutput{}
	if out.Body.Messages, err = show(ctx, c, rows); err != nil {
		return nil, err
	}
	if n := len(rows); more {
		out.Body.SetNext(list, c.Tenant.ID(), &store.Position{
			Created: time.UnixMilli(page.Version), Name: strconv.FormatInt(rows[n-1].Position+1, 10)})
	}
	return out, nil
}

// show returns messages without the operator's data. For end users, it omits messages that they must not
// see.
func show(ctx context.Context, c *httpapi.Caller, rows []store.ThreadMessage) ([]api.ThreadMessage, error) {
	hide, err := runs.RedactorOf(ctx, c.Tenant, rows)
	if err != nil {
		return nil, err
	}
	out := []api.ThreadMessage{}
	for _, m := range rows {
		body, err := hide.Message(m.Body)
		if err == nil && c.Token != nil {
			body, err = runs.UserMessage(body)
		}
		if err != nil {
			return nil, err
		}
		if body == nil {
			continue
		}
		out = append(out, api.ThreadMessage{ID: m.ID, Position: m.Position, Run: m.Run, Message: body})
	}
	return out, nil
}
