package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// ErrNoMessage reports that a thread has no message with an id.
var ErrNoMessage = errors.New("no such message")

// A ThreadFork selects the messages that a new thread copies from another one: all of them, if Message
// and Run are empty.
type ThreadFork struct {
	Thread  string
	Message string // the id of the last message to copy
	Run     string // a finished run of the thread; the thread's messages at its end are copied
}

// maxForkBytes is the size of the messages, in bytes, after which a transaction of a fork copies no more.
const maxForkBytes = 1 << 20

// A fork is a copy of messages in progress.
type fork struct {
	from, to        string // ids of the threads
	version         int64  // of the messages to copy
	messages, bytes int64  // to copy
}

// ForkThread creates a thread from the fields of h that a client sets, as [Tenant.CreateThread] does,
// with copies of messages of another thread. The copies count toward the quota journal_bytes.
// ForkThread fails as CreateThread does, with a [*QuotaError] if the copies exceed a quota, and with
// [journal.ErrNoThread], [ErrNoMessage], [journal.ErrNoRun], or [ErrInUse] if the run is not
// finished. It copies in batches, and fails with [journal.ErrThreadChanged] if messages are deleted
// meanwhile. If h is not Titled, the new thread gets the title of the other. If it is interrupted,
// [Store].Prune deletes the copies.
func (n *Tenant) ForkThread(ctx context.Context, h *Thread, f *ThreadFork) (out *Thread, err error) {
	var k *fork
	if err := n.update(ctx, func(t scoped) error {
		k, err = beginFork(t, h, f)
		return err
	}); err != nil {
		return nil, err
	}
	if out, err = n.copyMessages(ctx, k); err != nil {
		_ = n.finishDeletion(context.WithoutCancel(ctx), k.to)
		return nil, err
	}
	return out, nil
}

// beginFork creates the new thread, marked as deleted until it has its messages.
func beginFork(t scoped, h *Thread, f *ThreadFork) (*fork, error) {
	from, err := threadIn(t, f.Thread)
	if err != nil {
		return nil, err
	}
	k := &fork{from: from.ID, to: h.ID, version: from.Version}
	if f.Run != "" {
		if k.version, err = versionAfter(t, from, f.Run); err != nil {
			return nil, err
		}
	}
	last := int64(1) << 62
	if f.Message != "" {
		last = -1
		if err := t.row([]any{&last}, `SELECT position FROM thread_messages WHERE tenant = $1 AND thread = $2 AND id = $3
			AND added <= $4 AND (removed = 0 OR removed > $4)`, from.ID, f.Message, k.version); err != nil {
			return nil, err
		}
		if last < 0 {
			return nil, database.ForCaller(fmt.Errorf("message %.80q of thread %s: %w", f.Message, from.ID, ErrNoMessage))
		}
	}
	if err := t.row([]any{&k.messages, &k.bytes}, `SELECT count(*), CAST(COALESCE(sum(size), 0) AS BIGINT) FROM thread_messages
		WHERE tenant = $1 AND thread = $2 AND position <= $3 AND added <= $4 AND (removed = 0 OR removed > $4)`,
		from.ID, last, k.version); err != nil {
		return nil, err
	}
	if err := checkCopy(t, k.messages, k.bytes); err != nil {
		return nil, err
	}
	own := *h
	if !own.Titled {
		own.Title = from.Title
	}
	if _, err := createThread(t, &own); err != nil {
		return nil, err
	}
	_, err = t.Exec(`UPDATE threads SET version = -1, parent = $3 WHERE tenant = $1 AND id = $2`, k.to, k.from)
	return k, err
}

// versionAfter returns the version of a thread's messages at the end of a run. It fails with
// [journal.ErrNoRun] if the thread has no such run, and with [ErrInUse] if the run is not finished.
func versionAfter(t scoped, h *Thread, run string) (version int64, err error) {
	var status string
	err = t.row(
		[]any{&version, &status},
		`SELECT thread_seq, status FROM runs WHERE tenant = $1 AND id = $2 AND thread = $3`,
		run,
		h.ID,
	)
	switch {
	case err != nil:
		return 0, err
	case status == "":
		return 0, database.ForCaller(noRun(run))
	case journal.Status(status) != journal.StatusFinished:
		return 0, database.ForCaller(fmt.Errorf("run %s: %w: it is %s", run, ErrInUse, status))
	}
	return version, nil
}

// checkCopy fails with a [*QuotaError] if the tenant may not store more messages with a number of bytes
// in a new thread.
func checkCopy(t scoped, messages, bytes int64) error {
	if t.tenant == Operator {
		return nil
	}
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return err
	}
	return cmp.Or(
		checkQuota("thread_messages", info.Quota.threadMessages(), 0, messages, 0),
		checkQuota("thread_bytes", info.Quota.threadBytes(), 0, bytes, 0),
		checkStored(t, bytes),
	)
}

// copyMessages copies the messages of a fork, and makes the new thread visible.
func (n *Tenant) copyMessages(ctx context.Context, k *fork) (out *Thread, err error) {
	next := int64(0)
	if err := database.InBatches(ctx, func() (more bool, err error) {
		at := next
		err = n.update(ctx, func(t scoped) error {
			next, err = k.copyBatch(t, at)
			return err
		})
		return next < k.messages, err
	}); err != nil {
		return nil, err
	}
	err = n.update(ctx, func(t scoped) error {
		if _, err := t.Exec(`UPDATE threads SET version = 0, messages = $3, bytes = $4, updated_ms = NOW_MS
			WHERE tenant = $1 AND id = $2 AND version = -1`, k.to, k.messages, k.bytes); err != nil {
			return err
		}
		out, err = threadIn(t, k.to)
		return err
	})
	return out, err
}

// copyBatch copies messages from a position on, and returns the position after them. It fails with
// [journal.ErrThreadChanged] if messages were deleted meanwhile.
func (k *fork) copyBatch(t scoped, at int64) (next int64, err error) {
	var split []int64 // positions of messages in pieces
	next, size := at, int64(0)
	if err := t.Query(func(scan func(...any) error) error {
		var position, bytes int64
		var pieces string
		if err := scan(&position, &bytes, &pieces); err != nil {
			return err
		}
		if position != next {
			return journal.ErrThreadChanged
		}
		if size >= maxForkBytes {
			return errStop
		}
		next, size = next+1, size+bytes
		if pieces != "" {
			split = append(split, position)
		}
		return nil
	}, `SELECT position, size, pieces FROM thread_messages WHERE tenant = $1 AND thread = $2 AND position >= $3
		AND position < $4 AND added <= $5 AND (removed = 0 OR removed > $5) ORDER BY position LIMIT $6`,
		k.from, at, k.messages, k.version, int64(database.BatchRows)); err != nil && !errors.Is(err, errStop) {
		return at, err
	}
	if next == at && at < k.messages {
		return at, database.ForCaller(journal.ErrThreadChanged)
	}
	if _, err := t.Exec(`INSERT INTO thread_messages (tenant, thread, position, added, removed, id, run, size, body, pieces)
		SELECT tenant, $3, position, 0, 0, id, run, size, body, pieces FROM thread_messages WHERE tenant = $1 AND thread = $2
		AND position >= $4 AND position < $5 AND added <= $6 AND (removed = 0 OR removed > $6)`,
		k.from, k.to, at, next, k.version); err != nil {
		return at, err
	}
	for _, position := range split {
		if err := k.copyPieces(t, position); err != nil {
			return at, err
		}
	}
	if t.tenant == Operator {
		return next, nil
	}
	// Other forks may have copied messages since this one began.
	if err := checkStored(t, size); err != nil {
		return at, err
	}
	return next, addJournalBytes(t, size)
}

// checkStored fails with a [*QuotaError] if the tenant may not store more bytes.
func checkStored(t scoped, bytes int64) error {
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return err
	}
	stored, err := journalBytes(t)
	if err != nil {
		return err
	}
	return checkQuota("journal_bytes", info.Quota.journalBytes(), stored, max(bytes, 1), 0)
}

// copyPieces copies the pieces of a large message, and stores their id in the message's copy.
func (k *fork) copyPieces(t scoped, position int64) error {
	var from string
	if err := t.row([]any{&from}, `SELECT pieces FROM thread_messages WHERE tenant = $1 AND thread = $2 AND position = $3
		AND added = 0`, k.to, position); err != nil {
		return err
	}
	to, err := blob.Copy(t.tx, from)
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE thread_messages SET pieces = $4 WHERE tenant = $1 AND thread = $2 AND position = $3
		AND added = 0`, k.to, position, to)
	return err
}

// RunVersion returns the version of a thread's messages after one of its finished runs; see
// [Thread].Version. It fails with [journal.ErrNoRun] if the thread has no such run, and with
// [ErrInUse] if the run has not finished.
func (n *Tenant) RunVersion(ctx context.Context, h *Thread, run string) (version int64, err error) {
	err = n.view(ctx, func(t scoped) error {
		version, err = versionAfter(t, h, run)
		return err
	})
	return version, err
}

// AdoptRun creates a thread as [Tenant.CreateThread] does. Its first run is a finished run without a
// thread, and end has the messages of this run. AdoptRun fails with [journal.ErrNoRun] if the tenant
// has no such run, and with [ErrInUse] if the run has a thread or has not finished. It fails with a
// [*QuotaError] if a quota does not allow the thread.
func (n *Tenant) AdoptRun(ctx context.Context, h *Thread, run string, end *journal.ThreadEnd) (out *Thread, err error) {
	var items [][]byte
	for _, item := range end.Items {
		items = append(items, item)
	}
	err = n.s.blobs.Write(ctx, blob.Options{}, func(bodies []*blob.Body) error {
		return n.update(ctx, func(t scoped) error {
			out, err = adoptRun(t, h, run, end, bodies)
			return err
		})
	}, items...)
	return out, err
}

func adoptRun(t scoped, h *Thread, run string, end *journal.ThreadEnd, bodies []*blob.Body) (*Thread, error) {
	var status string
	if err := t.row([]any{&status}, `SELECT status FROM runs WHERE tenant = $1 AND id = $2`, run); err != nil {
		return nil, err
	}
	if status == "" {
		return nil, database.ForCaller(noRun(run))
	}
	changed, err := t.Exec(`UPDATE runs SET thread = $3, thread_seq = 1 WHERE tenant = $1 AND id = $2
		AND status = 'finished' AND thread = ''`, run, h.ID)
	if err == nil && changed == 0 {
		err = database.ForCaller(fmt.Errorf("run %s: %w: it has a thread, or is %s", run, ErrInUse, status))
	}
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for _, item := range end.Items {
		size += messageSize(item)
	}
	if err := checkCopy(t, int64(len(end.Items)), size); err != nil {
		return nil, err
	}
	own := *h
	if !own.Titled {
		own.Title = withoutControls(end.Title)
	}
	if _, err := createThread(t, &own); err != nil {
		return nil, err
	}
	e := threadChange{t: t, thread: h.ID, run: run, seq: 1, ThreadEnd: end}
	if _, err := e.add(bodies); err != nil {
		return nil, err
	}
	if _, err := t.Exec(`UPDATE threads SET version = 1, runs = 1, messages = $3, bytes = $4 WHERE tenant = $1 AND id = $2`,
		h.ID, int64(len(end.Items)), size); err != nil {
		return nil, err
	}
	if t.tenant != Operator {
		if err := addJournalBytes(t, size); err != nil {
			return nil, err
		}
	}
	return threadIn(t, h.ID)
}

// messageSize returns the bytes that count for a message of a thread.
func messageSize(item json.RawMessage) int64 { return int64(messageRowBytes + len(item)) }

// MessageIDs returns a version of the messages of one of the tenant's threads, in order and without
// their bodies.
func (n *Tenant) MessageIDs(ctx context.Context, thread string, version int64) (out []ThreadMessage, err error) {
	err = n.view(ctx, func(t scoped) error {
		out = nil
		return t.Query(func(scan func(...any) error) error {
			var m ThreadMessage
			err := scan(&m.Position, &m.ID, &m.Run)
			out = append(out, m)
			return err
		}, `SELECT position, id, run FROM thread_messages WHERE tenant = $1 AND thread = $2
			AND added <= $3 AND (removed = 0 OR removed > $3) ORDER BY position`, thread, version)
	})
	return out, err
}
