package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// messageRowBytes is the overhead, in bytes, that is counted for each message of a thread.
const messageRowBytes = 128

// A ThreadMessage is a message of a thread.
type ThreadMessage struct {
	Position int64 // counted from 0
	ID       string
	Run      string // the run that added or last changed it
	Body     json.RawMessage
}

// A MessagePage selects messages of a thread.
type MessagePage struct {
	Version int64 // the version of the thread's messages; see [Thread]
	From    int64 // position of the first message
	Limit   int   // maximum number of messages
	// MaxBytes is the number of bytes at which the page ends, after the message that reaches it.
	MaxBytes int
}

// ThreadMessages returns messages of one of the tenant's threads in order, and whether more follow.
// An earlier version of the messages is incomplete once runs that began with it were deleted.
func (n *Tenant) ThreadMessages(
	ctx context.Context,
	thread string,
	p *MessagePage,
) (out []ThreadMessage, more bool, err error) {
	err = n.view(ctx, func(t scoped) error {
		out, more, err = threadMessages(t, thread, p)
		return err
	})
	return out, more, err
}

func threadMessages(t scoped, thread string, p *MessagePage) (out []ThreadMessage, more bool, err error) {
	type row struct {
		ThreadMessage
		body blob.Body
	}
	var rows []row
	size := 0
	err = t.Query(func(scan func(...any) error) error {
		var r row
		var bytesOf int64
		if more = len(rows) == p.Limit || size >= p.MaxBytes; more {
			return errStop
		}
		if err := scan(&r.Position, &r.ID, &r.Run, &bytesOf, &r.body.InRow, &r.body.Pieces); err != nil {
			return err
		}
		size += int(bytesOf)
		r.body.InRow = bytes.Clone(r.body.InRow)
		rows = append(rows, r)
		return nil
	}, `SELECT position, id, run, size, body, pieces FROM thread_messages
		WHERE tenant = $1 AND thread = $2 AND position >= $3 AND added <= $4 AND (removed = 0 OR removed > $4)
		ORDER BY position LIMIT $5`, thread, p.From, p.Version, int64(p.Limit)+1)
	if err != nil && !errors.Is(err, errStop) {
		return nil, false, err
	}
	out = make([]ThreadMessage, len(rows))
	for i := range rows {
		out[i] = rows[i].ThreadMessage
		if out[i].Body, err = rows[i].body.Read(t.tx); err != nil {
			return nil, false, err
		}
	}
	return out, more, nil
}

// baseLine returns the line with the messages of the thread that precede a run; see
// [journal.BaseLine].
func baseLine(t database.Tx, info *journal.RunInfo) ([]byte, error) {
	var seq, base int64
	if _, err := database.One(t, `SELECT thread_seq, base FROM runs WHERE id = $1`, []any{info.ID}, &seq, &base); err != nil {
		return nil, err
	}
	messages, _, err := threadMessages(scoped{t, info.Tenant}, info.Thread,
		&MessagePage{Version: seq - 1, Limit: int(base), MaxBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	if int64(len(messages)) != base {
		return nil, database.Corruptf("thread %s has %d of the %d messages with which run %s began",
			info.Thread, len(messages), base, info.ID)
	}
	bodies := make([][]byte, len(messages))
	for i := range messages {
		bodies[i] = messages[i].Body
	}
	return journal.BaseLine(bodies), nil
}

// threadBodies returns the messages that a commit adds to a thread.
func threadBodies(c *journal.Commit) (bodies [][]byte) {
	if c.Thread == nil {
		return nil
	}
	for _, item := range c.Thread.Items {
		bodies = append(bodies, item)
	}
	return bodies
}

// titleOf returns the title that a thread with the given messages has unless a client sets one.
func titleOf(messages []ThreadMessage) string {
	list := make([]abi.Message, 0, len(messages))
	for _, m := range messages {
		var out abi.Message
		if _, err := abijson.Decode(m.Body, &out); err == nil {
			list = append(list, out)
		}
	}
	return runlog.ThreadTitle(message.NewList(message.NewRevisions(), list))
}

// eraseInThread records that the run of a commit erased messages with which it began, so that their
// text is removed from its thread when the run ends. It removes the text from the thread's title
// immediately.
func eraseInThread(t database.Tx, c *journal.Commit) error {
	var tenant, thread string
	found, err := database.One(
		t,
		`UPDATE runs SET base_erased = 1 WHERE id = $1 AND thread <> '' RETURNING tenant, thread`,
		[]any{c.Run},
		&tenant,
		&thread,
	)
	if err != nil || !found || c.Rewrite.Title == nil {
		return err
	}
	_, err = t.Exec(`UPDATE threads SET title = $3 WHERE tenant = $1 AND id = $2 AND titled = 0 AND messages = 0`,
		tenant, thread, withoutControls(*c.Rewrite.Title))
	return err
}

// A threadChange is the change of a thread when one of its runs ends.
type threadChange struct {
	t      scoped
	thread string
	run    string
	seq    int64 // the run's number
	erased bool  // modules changed or removed messages with which the run began
	*journal.ThreadEnd
}

// endInThread changes the thread of a run that ends. bodies are the added messages. It returns the
// ids of the pieces that it released.
func endInThread(t database.Tx, c *journal.Commit, bodies []*blob.Body) (pieces []string, err error) {
	var tenant string
	var erased int64
	e := threadChange{run: c.Run, ThreadEnd: c.Thread}
	found, err := database.One(
		t,
		`SELECT tenant, thread, thread_seq, base_erased FROM runs WHERE id = $1 AND thread <> ''`,
		[]any{c.Run},
		&tenant,
		&e.thread,
		&e.seq,
		&erased,
	)
	if err != nil || !found {
		return nil, err
	}
	e.t, e.erased = scoped{t, tenant}, erased != 0
	var before, size int64
	if bodies, err = e.skipUnchanged(bodies); err != nil {
		return nil, err
	}
	locked, err := e.t.Exec(
		`UPDATE threads SET version = $3, updated_ms = NOW_MS WHERE tenant = $1 AND id = $2 AND version >= 0`,
		e.thread,
		e.seq,
	)
	if err != nil || locked == 0 {
		return nil, err
	}
	if before, pieces, err = e.remove(); err != nil {
		return nil, err
	}
	if size, err = e.add(bodies); err != nil {
		return nil, err
	}
	if _, err := e.t.Exec(`UPDATE threads SET messages = $3, bytes = bytes - $4 + $5 WHERE tenant = $1 AND id = $2`,
		e.thread, int64(e.From+len(e.Items)), before, size); err != nil {
		return nil, err
	}
	if _, err := e.t.Exec(`UPDATE threads SET title = $3 WHERE tenant = $1 AND id = $2 AND titled = 0`,
		e.thread, withoutControls(e.Title)); err != nil || tenant == Operator {
		return pieces, err
	}
	return pieces, addJournalBytes(e.t, size)
}

// skipUnchanged removes messages that the thread already has from the beginning of the change.
// Otherwise a module that replaces all messages with equal ones would store them again in each run.
func (e *threadChange) skipUnchanged(bodies []*blob.Body) ([]*blob.Body, error) {
	var stored []blob.Body
	if err := e.t.Query(func(scan func(...any) error) error {
		var b blob.Body
		err := scan(&b.InRow, &b.Pieces)
		b.InRow = bytes.Clone(b.InRow)
		stored = append(stored, b)
		return err
	}, `SELECT body, pieces FROM thread_messages WHERE tenant = $1 AND thread = $2 AND position >= $3 AND removed = 0
		ORDER BY position`, e.thread, int64(e.From)); err != nil {
		return nil, err
	}
	same, items := 0, e.Items
	for ; same < min(len(stored), len(items)); same++ {
		if size, err := stored[same].Size(); err != nil || size != len(items[same]) {
			break
		}
		if body, err := stored[same].Read(e.t.tx); err != nil || !bytes.Equal(body, items[same]) {
			break
		}
	}
	e.ThreadEnd = &journal.ThreadEnd{From: e.From + same, Items: items[same:], Title: e.Title}
	return bodies[same:], nil
}

// remove ends the validity of the messages that the change replaces. If the run erased messages,
// remove overwrites the replaced ones with the run's version of them. It returns the size of the
// messages and the ids of the pieces that it released.
func (e *threadChange) remove() (size int64, pieces []string, err error) {
	type row struct {
		position, added int64
		id, pieces      string
	}
	var rows []row
	if err := e.t.Query(func(scan func(...any) error) error {
		var r row
		var n int64
		err := scan(&r.position, &r.added, &r.id, &n, &r.pieces)
		size += n
		rows = append(rows, r)
		return err
	}, `SELECT position, added, id, size, pieces FROM thread_messages
		WHERE tenant = $1 AND thread = $2 AND position >= $3 AND removed = 0`, e.thread, int64(e.From)); err != nil {
		return 0, nil, err
	}
	left := map[string]json.RawMessage{}
	if e.erased {
		for _, item := range e.Items {
			left[idOf(item)] = item
		}
	}
	for _, r := range rows {
		if _, err := e.t.Exec(`UPDATE thread_messages SET removed = $5
			WHERE tenant = $1 AND thread = $2 AND position = $3 AND added = $4`, e.thread, r.position, r.added, e.seq); err != nil {
			return 0, nil, err
		}
		if !e.erased {
			continue
		}
		if r.pieces != "" {
			if err := blob.Release(e.t.tx, r.pieces); err != nil {
				return 0, nil, err
			}
			pieces = append(pieces, r.pieces)
		}
		if err := e.overwrite(r.position, r.added, r.id, left[r.id]); err != nil {
			return 0, nil, err
		}
	}
	return size, pieces, nil
}

// overwrite replaces the text of a message that is no longer part of the thread with left, the run's
// version of the message. If left is nil, the message gets an empty text. The row remains, because
// earlier runs began with the message and refer to it by its position.
func (e *threadChange) overwrite(position, added int64, id string, left json.RawMessage) (err error) {
	if left == nil {
		var body blob.Body
		if err := e.t.row([]any{&body.InRow}, `SELECT body FROM thread_messages
			WHERE tenant = $1 AND thread = $2 AND position = $3 AND added = $4`, e.thread, position, added); err != nil {
			return err
		}
		var m struct {
			Role   string `json:"role"`
			Origin string `json:"origin"`
		}
		_ = json.Unmarshal(body.InRow, &m)
		if m.Role == "" {
			m.Role = abi.RoleUser
		}
		left, err = abijson.Marshal(&abi.Message{ID: id, Role: m.Role, Origin: m.Origin, Content: abi.Text("")})
		if err != nil {
			return err
		}
	}
	_, err = e.t.Exec(`UPDATE thread_messages SET body = $5, pieces = ''
		WHERE tenant = $1 AND thread = $2 AND position = $3 AND added = $4`, e.thread, position, added, []byte(left))
	return err
}

// add inserts the new messages of the thread, and returns their size.
func (e *threadChange) add(bodies []*blob.Body) (size int64, err error) {
	for i, b := range bodies {
		n := messageSize(e.Items[i])
		if err := insertMessage(e.t, e.thread, &ThreadMessage{Position: int64(e.From + i), ID: idOf(e.Items[i]), Run: e.run},
			e.seq, n, b); err != nil {
			return 0, err
		}
		size += n
	}
	return size, nil
}

// insertMessage inserts a message that is part of its thread from the end of run number added on.
func insertMessage(t scoped, thread string, m *ThreadMessage, added, size int64, b *blob.Body) error {
	if err := b.Adopt(t.tx); err != nil {
		return err
	}
	_, err := t.Exec(`INSERT INTO thread_messages (tenant, thread, position, added, removed, id, run, size, body, pieces)
		VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8, $9)`, thread, m.Position, added, withoutControls(m.ID), m.Run, size, b.InRow, b.Pieces)
	return err
}

func idOf(message json.RawMessage) string {
	var m struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(message, &m)
	return m.ID
}
