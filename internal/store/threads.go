package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Thread is a conversation that runs continue, one after the other.
type Thread struct {
	ID          string
	Subject     string // the end user to whom the thread belongs; empty for the tenant itself
	Agent       string // the agent of runs that name none; may be empty
	Title       string
	Titled      bool   // a client set the title; otherwise it is the first user message, shortened
	Concurrency string // what happens to a run while another one is unfinished; the server defines the values
	Metadata    map[string]string
	Parent      string // the thread that it was forked from; empty if there is none

	// Version is the number of the last run that changed the messages, or 0.
	Version  int64
	Runs     int64  // number of runs that began or were queued so far
	Messages int64  // number of messages
	Bytes    int64  // bytes of the messages
	Run      string // the unfinished run, or "" if there is none; queued runs do not count

	Created time.Time
	Updated time.Time // the last start or end of a run, or change of a field
}

// A ThreadFilter selects a page of threads. Its empty fields select all.
type ThreadFilter struct {
	Agent string
	// Subject selects the threads of an end user. If Name is set, too, Subject is compared in each
	// thread that Name and Value select, without an index.
	Subject     string
	Name, Value string // an entry of the metadata
	Page
}

// A ThreadUpdate selects changes of a thread. Nil fields do not change.
type ThreadUpdate struct {
	Title       *string // an empty title makes the first user message the title
	Agent       *string
	Concurrency *string
	Metadata    map[string]string // replaces the metadata
}

// NewThreadID returns an id for a new thread. Like the ids of runs, the ids of threads sort by their
// time of creation.
func NewThreadID() string { return "thr_" + strings.TrimPrefix(journal.NewRunID(), "run_") }

const threadColumns = `threads.id, threads.subject, threads.agent, threads.title, threads.titled, threads.concurrency,
	threads.parent, threads.version, threads.runs, threads.messages, threads.bytes, threads.created_ms, threads.updated_ms,
	COALESCE((SELECT runs.id FROM runs WHERE runs.tenant = threads.tenant AND runs.thread = threads.id
		AND runs.thread <> '' AND runs.status IN ('running', 'paused', 'quarantined')), '')`

func scanThread(scan func(...any) error) (Thread, error) {
	var h Thread
	var titled, created, updated int64
	err := scan(&h.ID, &h.Subject, &h.Agent, &h.Title, &titled, &h.Concurrency, &h.Parent, &h.Version, &h.Runs,
		&h.Messages, &h.Bytes, &created, &updated, &h.Run)
	h.Titled, h.Created, h.Updated = titled != 0, time.UnixMilli(created), time.UnixMilli(updated)
	return h, err
}

func noThread(id string) error {
	return database.ForCaller(fmt.Errorf("thread %s: %w", id, journal.ErrNoThread))
}

// threadIn returns a thread with its metadata.
func threadIn(t scoped, id string) (h *Thread, err error) {
	err = t.Query(func(scan func(...any) error) error {
		found, err := scanThread(scan)
		h = &found
		return err
	}, `SELECT `+threadColumns+` FROM threads WHERE tenant = $1 AND id = $2 AND version >= 0`, id)
	if err == nil && h == nil {
		err = noThread(id)
	}
	if err != nil {
		return nil, err
	}
	return h, readMetadata(t, h)
}

func readMetadata(t scoped, h *Thread) error {
	return t.Query(func(scan func(...any) error) error {
		var name, value string
		err := scan(&name, &value)
		if h.Metadata == nil {
			h.Metadata = map[string]string{}
		}
		h.Metadata[name] = value
		return err
	}, `SELECT name, value FROM thread_metadata WHERE tenant = $1 AND thread = $2 ORDER BY name`, h.ID)
}

// CreateThread creates a thread from the fields of h that a client sets: ID, Subject, Agent, Title, Titled,
// Concurrency and Metadata. It fails with [ErrExists] if the tenant has a thread with the id, and with a
// [*QuotaError] if the tenant has too many threads.
func (n *Tenant) CreateThread(ctx context.Context, h *Thread) (out *Thread, err error) {
	err = n.update(ctx, func(t scoped) error {
		out, err = createThread(t, h)
		return err
	})
	return out, err
}

func createThread(t scoped, h *Thread) (*Thread, error) {
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return nil, err
	}
	titled := int64(0)
	if h.Titled {
		titled = 1
	}
	added, err := t.Exec(`INSERT INTO threads (tenant, id, subject, agent, title, titled, concurrency,
		version, runs, messages, bytes, created_ms, updated_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, 0, NOW_MS, NOW_MS) ON CONFLICT (tenant, id) DO NOTHING`,
		h.ID, h.Subject, h.Agent, h.Title, titled, h.Concurrency)
	if err == nil && added == 0 {
		err = database.ForCaller(fmt.Errorf("thread %s: %w", h.ID, ErrExists))
	}
	if err != nil {
		return nil, err
	}
	if err := replaceMetadata(t, h.ID, h.Metadata); err != nil {
		return nil, err
	}
	if err := countThreads(t, info.Quota, 1); err != nil {
		return nil, err
	}
	return threadIn(t, h.ID)
}

// replaceMetadata replaces the metadata of a thread.
func replaceMetadata(t scoped, thread string, metadata map[string]string) error {
	if _, err := t.Exec(`DELETE FROM thread_metadata WHERE tenant = $1 AND thread = $2`, thread); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if _, err := t.Exec(`INSERT INTO thread_metadata (tenant, thread, name, value, created_ms)
			SELECT tenant, id, $3, $4, created_ms FROM threads WHERE tenant = $1 AND id = $2`,
			thread, name, metadata[name]); err != nil {
			return err
		}
	}
	return nil
}

// countThreads adds more to the number of the tenant's threads. It fails with a [*QuotaError] if
// that exceeds the quota. The operator has no quotas.
func countThreads(t scoped, q TenantQuota, more int64) error {
	if t.tenant == Operator {
		return nil
	}
	var used int64
	err := t.row([]any{&used}, `INSERT INTO journal_room (tenant, bytes, threads) VALUES ($1, 0, $2)
		ON CONFLICT (tenant) DO UPDATE SET threads = journal_room.threads + $2 RETURNING threads`, more)
	if err != nil || more < 0 {
		return err
	}
	return checkQuota("threads", q.threads(), used-more, more, 0)
}

// Thread returns one of the tenant's threads. It fails with [journal.ErrNoThread] if the tenant has
// no such thread.
func (n *Tenant) Thread(ctx context.Context, id string) (h *Thread, err error) {
	err = n.view(ctx, func(t scoped) error {
		h, err = threadIn(t, id)
		return err
	})
	return h, err
}

// Threads returns a page of the tenant's threads, the newest first, and the position of its last
// thread if more follow.
func (n *Tenant) Threads(ctx context.Context, f *ThreadFilter) (threads []Thread, next *Position, err error) {
	sql, args := f.query(n.id)
	err = n.view(ctx, func(t scoped) error {
		threads, next, err = list(t.tx, f.Page, scanThread, func(h *Thread) Position { return Position{h.Created, h.ID} },
			sql, args...)
		for i := range threads {
			if err == nil {
				err = readMetadata(t, &threads[i])
			}
		}
		return err
	})
	return threads, next, err
}

// query returns the statement that reads a page of threads, and its arguments except the last one,
// the maximum number of rows.
func (f *ThreadFilter) query(tenant string) (sql string, args []any) {
	created, id := f.older()
	args = []any{tenant, created, id}
	where := func(condition string, values ...any) {
		var at []any
		for _, v := range values {
			args = append(args, v)
			at = append(at, len(args))
		}
		sql += fmt.Sprintf(condition, at...)
	}
	table := "threads"
	if f.Name != "" {
		table = "thread_metadata"
		sql = `SELECT ` + threadColumns + ` FROM thread_metadata JOIN threads ON threads.tenant = thread_metadata.tenant
			AND threads.id = thread_metadata.thread
			WHERE thread_metadata.tenant = $1 AND (thread_metadata.created_ms, thread_metadata.thread) < ($2, $3)`
		where(` AND thread_metadata.name = $%d AND thread_metadata.value = $%d`, f.Name, f.Value)
	} else {
		sql = `SELECT ` + threadColumns + ` FROM threads WHERE threads.tenant = $1 AND (threads.created_ms, threads.id) < ($2, $3)`
	}
	indexed := f.Name == ""
	for _, c := range []struct{ field, value string }{{"subject", f.Subject}, {"agent", f.Agent}} {
		switch {
		case c.value == "":
		case indexed && (c.field == "subject" || f.Subject == ""):
			where(` AND threads.`+c.field+` = $%d`, c.value)
		default: // an expression, which matches no index
			where(` AND threads.`+c.field+` || '' = $%d`, c.value)
		}
	}
	name := "id"
	if table == "thread_metadata" {
		name = "thread"
	}
	return sql + fmt.Sprintf(` AND threads.version >= 0 ORDER BY %[1]s.created_ms DESC, %[1]s.%[2]s DESC LIMIT $%[3]d`,
		table, name, len(args)+1), args
}

// UpdateThread changes the fields of a thread that are not nil in u. It fails with
// [journal.ErrNoThread] if the tenant has no such thread.
func (n *Tenant) UpdateThread(ctx context.Context, id string, u *ThreadUpdate) (h *Thread, err error) {
	err = n.update(ctx, func(t scoped) error {
		if h, err = threadIn(t, id); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE threads SET updated_ms = NOW_MS WHERE tenant = $1 AND id = $2`, id); err != nil {
			return err
		}
		for _, c := range []struct {
			column string
			value  *string
		}{{"agent", u.Agent}, {"concurrency", u.Concurrency}} {
			if c.value == nil {
				continue
			}
			if _, err := t.Exec(`UPDATE threads SET `+c.column+` = $3 WHERE tenant = $1 AND id = $2`, id, *c.value); err != nil {
				return err
			}
		}
		if err := setTitle(t, h, u.Title); err != nil {
			return err
		}
		if u.Metadata != nil {
			if err := replaceMetadata(t, id, u.Metadata); err != nil {
				return err
			}
		}
		h, err = threadIn(t, id)
		return err
	})
	return h, err
}

// setTitle sets the title of a thread. If title is empty, the thread gets the title that its messages have. setTitle
// does nothing if title is nil.
func setTitle(t scoped, h *Thread, title *string) error {
	switch {
	case title == nil:
		return nil
	case *title != "":
		_, err := t.Exec(`UPDATE threads SET title = $3, titled = 1 WHERE tenant = $1 AND id = $2`, h.ID, *title)
		return err
	}
	messages, _, err := threadMessages(
		t,
		h.ID,
		&MessagePage{Version: h.Version, Limit: int(h.Messages), MaxBytes: 1 << 30},
	)
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE threads SET title = $3, titled = 0 WHERE tenant = $1 AND id = $2`, h.ID, titleOf(messages))
	return err
}

// withoutControls returns a title without control characters.
func withoutControls(title string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, title)
}

// DeleteThread deletes a thread with its messages and its runs. It fails with [journal.ErrNoThread]
// if the tenant has no such thread, and with [ErrInUse] if a process executes a run of it. Paused,
// queued and interrupted runs are deleted. It works in batches; if it is interrupted, the thread no
// longer exists for others, and a repeated call or [Store].Prune deletes the rest.
func (n *Tenant) DeleteThread(ctx context.Context, id string) error {
	if err := n.update(ctx, func(t scoped) error { return beginDeletion(t, id) }); err != nil {
		return err
	}
	return n.finishDeletion(ctx, id)
}

// beginDeletion marks a thread as deleted, so that no run begins in it.
func beginDeletion(t scoped, id string) error {
	var running string
	if err := t.row([]any{&running}, `SELECT id FROM runs WHERE tenant = $1 AND thread = $2 AND thread <> ''
		AND status IN ('running', 'paused', 'quarantined') AND status = 'running' AND lease_ms > NOW_MS`, id); err != nil {
		return err
	}
	if running != "" {
		return database.ForCaller(fmt.Errorf("thread %s: %w: run %s is in progress; cancel it first", id, ErrInUse, running))
	}
	marked, err := t.Exec(`UPDATE threads SET version = -1, updated_ms = 0 WHERE tenant = $1 AND id = $2`, id)
	if err == nil && marked == 0 {
		err = noThread(id)
	}
	return err
}

// finishDeletion deletes the runs and the messages of a thread, and the thread itself.
func (n *Tenant) finishDeletion(ctx context.Context, id string) error {
	err := database.InBatches(ctx, func() (more bool, err error) {
		err = n.s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			if _, more, err = deleteRuns(t, "tenant = $1 AND thread = $2 AND thread <> ''", []any{n.id, id}); err != nil ||
				more {
				return err
			}
			own := scoped{t, n.id}
			if more, err = deleteMessages(own, `thread = $2`, id); err != nil || more {
				return err
			}
			if _, err := own.Exec(`DELETE FROM thread_metadata WHERE tenant = $1 AND thread = $2`, id); err != nil {
				return err
			}
			deleted, err := own.Exec(`DELETE FROM threads WHERE tenant = $1 AND id = $2`, id)
			if err != nil || deleted == 0 {
				return err
			}
			return countThreads(own, TenantQuota{}, -1)
		})
		return more, err
	})
	if err != nil {
		return err
	}
	return n.s.blobs.Sweep(ctx)
}

// deleteMessages deletes messages of the tenant's threads for which a condition holds, at most
// [database.BatchRows] of them. It reports whether there may be more.
func deleteMessages(t scoped, condition string, args ...any) (more bool, err error) {
	type row struct {
		thread, pieces        string
		position, added, size int64
	}
	var rows []row
	if err := t.Query(func(scan func(...any) error) error {
		var r row
		err := scan(&r.thread, &r.position, &r.added, &r.size, &r.pieces)
		rows = append(rows, r)
		return err
	}, fmt.Sprintf(`SELECT thread, position, added, size, pieces FROM thread_messages WHERE tenant = $1 AND %s LIMIT $%d`,
		condition, len(args)+2), append(args, int64(database.BatchRows))...); err != nil {
		return false, err
	}
	freed := int64(0)
	for _, r := range rows {
		if r.pieces != "" {
			if err := blob.Release(t.tx, r.pieces); err != nil {
				return false, err
			}
		}
		if _, err := t.Exec(`DELETE FROM thread_messages WHERE tenant = $1 AND thread = $2 AND position = $3 AND added = $4`,
			r.thread, r.position, r.added); err != nil {
			return false, err
		}
		freed += r.size
	}
	if t.tenant == Operator || freed == 0 {
		return len(rows) == database.BatchRows, nil
	}
	return len(rows) == database.BatchRows, addJournalBytes(t, -freed)
}
