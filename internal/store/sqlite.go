package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// How SQLite is used.
const (
	busyTimeout = 10_000 // milliseconds that a writer waits for another process
	readers     = 6      // connections
	maxGroup    = 64     // writes that share a transaction
)

// sqliteDB is a database in a file. One connection writes, and writes that are
// asked for at once share a transaction; those made while the disk is waited for share
// the next wait for it. Others read what was there when they began.
type sqliteDB struct {
	where  string
	reads  *sql.DB
	idle   chan *sqliteConn // of reads: who reads takes one, and those who wait are served in their order
	writes *sql.DB
	writer *sqliteConn // used by the writing goroutine alone
	disk   *disk

	mu     sync.RWMutex // held for reading while something is sent to queue
	closed bool
	ended  chan struct{} // closed with it
	queue  chan *write
	first  chan *write // urgent ones, which are made before those in queue
	done   chan struct{}
}

// A write is a transaction that was asked for.
type write struct {
	ctx     context.Context
	lazy    bool
	fn      func(tx) error
	written func() // called when it is, before it is safe; nil: it is not
	err     error
	done    chan struct{}
}

func openSQLite(ctx context.Context, path string) (database, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	d := &sqliteDB{where: path, idle: make(chan *sqliteConn, readers), ended: make(chan struct{}), queue: make(chan *write, maxGroup), first: make(chan *write, maxGroup), done: make(chan struct{})}
	if err := d.makeFile(); err != nil {
		return nil, d.failed(err)
	}
	dsn := func(more string) string {
		return "file:" + (&url.URL{Path: path}).EscapedPath() + fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=temp_store(MEMORY)%s", busyTimeout, more)
	}
	if d.writes, err = sql.Open("sqlite", dsn(fmt.Sprintf("&_pragma=synchronous(NORMAL)&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(%d)", mostLog))); err != nil {
		return nil, d.failed(err)
	}
	if d.reads, err = sql.Open("sqlite", dsn("&_pragma=query_only(1)")); err != nil {
		return nil, d.failed(err)
	}
	if err := d.connect(ctx); err != nil {
		_ = d.writes.Close()
		_ = d.reads.Close()
		return nil, d.failed(err)
	}
	keepMemory()
	go d.work()
	return d, nil
}

// connect makes the connections.
func (d *sqliteDB) connect(ctx context.Context) (err error) {
	if d.writer, err = d.newConn(ctx, d.writes); err != nil {
		return err
	}
	for range readers {
		c, err := d.newConn(ctx, d.reads)
		if err != nil {
			return err
		}
		d.idle <- c
	}
	d.disk, err = d.openDisk(ctx)
	return err
}

// makeFile makes the file for its owner alone: runs hold whole conversations.
func (d *sqliteDB) makeFile() error {
	if err := os.MkdirAll(filepath.Dir(d.where), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(d.where, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (d *sqliteDB) dialect(text string) string {
	text = strings.ReplaceAll(text, "NOW_MS", "CAST(unixepoch('subsec') * 1000 AS INTEGER)")
	text = strings.ReplaceAll(text, "BYTES", "BLOB")
	return strings.ReplaceAll(text, "$", "?")
}

func (d *sqliteDB) close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.ended)
	close(d.queue)
	close(d.first)
	d.mu.Unlock()
	<-d.done
	err := errors.Join(d.disk.close(), d.writer.close())
	for range readers {
		err = errors.Join(err, (<-d.idle).close())
	}
	return errors.Join(err, d.writes.Close(), d.reads.Close())
}

var errClosed = errors.New("it is closed")

// update implements database.
func (d *sqliteDB) update(ctx context.Context, lazy bool, fn func(tx) error) error {
	return d.make(&write{ctx: ctx, lazy: lazy, fn: fn, done: make(chan struct{})})
}

// commit implements database.
func (d *sqliteDB) commit(ctx context.Context, written func(), fn func(tx) error) error {
	return d.make(&write{ctx: ctx, fn: fn, written: written, done: make(chan struct{})})
}

// make makes a write, and returns when it is as safe as it is to be.
func (d *sqliteDB) make(w *write) error {
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return &Error{Broken, d.where, errClosed}
	}
	queue := d.queue
	if isUrgent(w.ctx) {
		queue = d.first
	}
	select {
	case queue <- w:
		d.mu.RUnlock()
	case <-w.ctx.Done():
		d.mu.RUnlock()
		return context.Cause(w.ctx)
	}
	<-w.done
	return d.failed(w.err)
}

// exclusive implements database: writers exclude each other, here and in other
// processes.
func (d *sqliteDB) exclusive(ctx context.Context, fn func(tx) error) error {
	return d.update(ctx, false, fn)
}

// work makes writes until the database is closed.
func (d *sqliteDB) work() {
	defer close(d.done)
	for group := d.next(); group != nil; group = d.next() {
		if err := d.group(group); err != nil {
			for _, w := range group {
				w.err = err
			}
		}
		d.disk.await(group)
	}
}

// next waits for writes and returns those that share a transaction: the urgent ones if there
// are any, else others. It returns none once the database is closed.
func (d *sqliteDB) next() []*write {
	select {
	case w, ok := <-d.first:
		if ok {
			return gathered(w, d.first)
		}
		if w, ok = <-d.queue; ok { // it is closed too
			return gathered(w, d.queue)
		}
		return nil
	default:
	}
	select {
	case w, ok := <-d.first:
		if ok {
			return gathered(w, d.first)
		}
	case w, ok := <-d.queue:
		if ok {
			return gathered(w, d.queue)
		}
		if w, ok = <-d.first; ok {
			return gathered(w, d.first)
		}
		return nil
	}
	return d.next()
}

// gathered returns a write and those of its queue that wait, at most maxGroup.
func gathered(first *write, queue chan *write) []*write {
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

// group makes writes in one transaction. One that fails takes back what it did
// itself; the error is that of all of them.
func (d *sqliteDB) group(group []*write) (err error) {
	t := d.writer
	if _, err := t.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = t.exec("ROLLBACK") // it may have been rolled back already
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
		if _, err := t.exec("SAVEPOINT write"); err != nil {
			return err
		}
		if w.err = w.fn(t); w.err != nil {
			if _, err := t.exec("ROLLBACK TO write"); err != nil {
				if _, own := ours(w.err, d.where); own {
					return err
				}
				return w.err // the database took everything back at that: it is why
			}
		}
		if _, err := t.exec("RELEASE write"); err != nil {
			return err
		}
	}
	_, err = t.exec("COMMIT")
	return err
}

// scanAll reads all rows.
func scanAll(rows *sql.Rows, err error, scan func(func(...any) error) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// view implements database.
func (d *sqliteDB) view(ctx context.Context, fn func(tx) error) error {
	select {
	case c := <-d.idle:
		defer func() { d.idle <- c }()
		return d.failed(c.read(ctx, fn))
	case <-d.ended:
		return &Error{Broken, d.where, errClosed}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sqlTx is a transaction of package sql.
type sqlTx struct {
	ctx     context.Context
	tx      *sql.Tx
	dialect func(string) string
}

func (t sqlTx) exec(text string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(t.ctx, t.dialect(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t sqlTx) query(scan func(func(...any) error) error, text string, args ...any) error {
	rows, err := t.tx.QueryContext(t.ctx, t.dialect(text), args...)
	return scanAll(rows, err, scan)
}

// failed says what is wrong with the database, if err is an error of it.
func (d *sqliteDB) failed(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := ours(err, d.where); ok {
		return known
	}
	e := &Error{Broken, d.where, err}
	var of *sqlite.Error
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Kind = ReadOnly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = Full
	case errors.As(err, &of):
		e.Kind = sqliteKind(of.Code())
	}
	return e
}

func sqliteKind(code int) Kind {
	if code == sqlite3.SQLITE_IOERR_WRITE || code == sqlite3.SQLITE_IOERR_FSYNC || code == sqlite3.SQLITE_IOERR_SHMSIZE || code == sqlite3.SQLITE_IOERR_TRUNCATE {
		return Full // a limit of the file's size shows as this too
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return Full
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return ReadOnly
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return Gone
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return Corrupt
	default:
		return Broken
	}
}

// ours returns errors that are no failure of the database, with its name where
// they want it.
func ours(err error, where string) (error, bool) {
	var own ownError
	var known *Error
	switch {
	case errors.As(err, &own):
		err = own.error
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err, true
	case !errors.As(err, &known):
		return err, false
	}
	if errors.As(err, &known) && known.Where == "" {
		known.Where = where
	}
	return err, true
}
