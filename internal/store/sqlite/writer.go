package sqlite

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// maxGroup is the maximum number of writes that share a transaction.
const maxGroup = 64

// A write is a requested transaction.
type write struct {
	database.TxOptions
	ctx  context.Context
	fn   func(database.Tx) error
	err  error
	done chan struct{} // closed when the write is as durable as requested, or has failed
}

// Update implements [database.DB].
func (d *DB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	w := &write{TxOptions: o, ctx: ctx, fn: fn, done: make(chan struct{})}
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return d.closedError()
	}
	queue := d.queue
	if o.Priority {
		queue = d.priority
	}
	select {
	case queue <- w:
		d.mu.RUnlock()
	case <-ctx.Done():
		d.mu.RUnlock()
		return context.Cause(ctx)
	}
	<-w.done
	return d.classify(w.err)
}

// Exclusive implements [database.DB]. SQLite runs one writing transaction at a time, in
// this process and others.
func (d *DB) Exclusive(ctx context.Context, fn func(database.Tx) error) error {
	return d.Update(ctx, database.TxOptions{}, fn)
}

// work executes writes until the database is closed.
func (d *DB) work() {
	defer close(d.done)
	for group := d.next(); group != nil; group = d.next() {
		if err := d.transact(group); err != nil {
			for _, w := range group {
				w.err = err
			}
		}
		d.syncer.await(group)
	}
}

// next waits for writes and returns the writes of the next transaction. It prefers writes with
// priority. It returns nil once the database is closed.
func (d *DB) next() []*write {
	select {
	case w, ok := <-d.priority:
		if ok {
			return gather(w, d.priority)
		}
		if w, ok = <-d.queue; ok { // both queues are closed, and this one may have writes left
			return gather(w, d.queue)
		}
		return nil
	default:
	}
	select {
	case w, ok := <-d.priority:
		if ok {
			return gather(w, d.priority)
		}
	case w, ok := <-d.queue:
		if ok {
			return gather(w, d.queue)
		}
		if w, ok = <-d.priority; ok {
			return gather(w, d.priority)
		}
		return nil
	}
	return d.next()
}

// gather returns a write and the ones that wait in its queue, at most maxGroup.
func gather(first *write, queue chan *write) []*write {
	group := []*write{first}
	for len(group) < maxGroup {
		select {
		case w, ok := <-queue:
			if !ok {
				return group
			}
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

// transact executes writes in one transaction. If one write fails, only its own changes are
// rolled back. An error that transact returns applies to all writes.
func (d *DB) transact(group []*write) (err error) {
	t := d.writer
	if _, err := t.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = t.Exec("ROLLBACK") // SQLite may have rolled back already
		}
	}()
	for _, w := range group {
		if w.err = context.Cause(w.ctx); w.err != nil {
			continue
		}
		if len(group) == 1 {
			if w.err = w.fn(t); w.err != nil {
				return w.err
			}
			continue
		}
		if _, err := t.Exec("SAVEPOINT write"); err != nil {
			return err
		}
		if w.err = w.fn(t); w.err != nil {
			if _, err := t.Exec("ROLLBACK TO write"); err != nil {
				if _, ok := database.Classified(w.err, d.path); ok {
					return err
				}
				return w.err // SQLite rolled back the whole transaction because of it
			}
		}
		if _, err := t.Exec("RELEASE write"); err != nil {
			return err
		}
	}
	_, err = t.Exec("COMMIT")
	return err
}
