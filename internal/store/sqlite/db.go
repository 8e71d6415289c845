// Package sqlite opens SQLite databases for the store. It takes a path and returns a
// [database.DB] with one writing connection and several reading ones. Writing transactions wait
// in a queue, share commits and fsyncs, and return once they have the durability of their
// options. The package imports only package database of this project.
package sqlite

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

	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	busyTimeoutMS = 10_000 // maximum wait for a lock of another process
	maxReaders    = 6      // reading connections
)

// A DB is a database in a file.
type DB struct {
	path    string
	readers *readers
	writes  *sql.DB
	writer  *conn // used only by the goroutine of the method work
	syncer  *syncer

	mu       sync.RWMutex // held for reading while a write is sent to queue or priority
	closed   bool
	closing  chan struct{} // closed when closed is set
	queue    chan *write
	priority chan *write // writes that are started before those in queue
	done     chan struct{}
}

// Open opens the database at a path. It creates the file, readable only by its owner, and its
// directory if they do not exist. It fails if the directory above that one does not exist, because then the
// path is probably mistyped, or a volume is not mounted.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	d := &DB{path: path, closing: make(chan struct{}),
		queue: make(chan *write, maxGroup), priority: make(chan *write, maxGroup), done: make(chan struct{})}
	if err := d.createDir(); err != nil {
		return nil, err
	}
	if err := d.createFile(); err != nil {
		return nil, d.classify(err)
	}
	dsn := func(pragmas string) string {
		return "file:" + (&url.URL{Path: path}).EscapedPath() +
			fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=temp_store(MEMORY)%s",
				busyTimeoutMS, pragmas)
	}
	pragmas := fmt.Sprintf(
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(%d)",
		maxWALPages,
	)
	if d.writes, err = sql.Open("sqlite", dsn(pragmas)); err != nil {
		return nil, d.classify(err)
	}
	reads, err := sql.Open("sqlite", dsn("&_pragma=query_only(1)"))
	if err != nil {
		return nil, d.classify(err)
	}
	d.readers = newReaders(reads)
	if err := d.connect(ctx); err != nil {
		_ = d.writes.Close()
		_ = reads.Close()
		return nil, d.classify(err)
	}
	go d.work()
	return d, nil
}

// connect opens the writing connections and starts the syncer.
func (d *DB) connect(ctx context.Context) (err error) {
	if d.writer, err = newConn(ctx, d.writes); err != nil {
		return err
	}
	d.syncer, err = d.openSyncer(ctx)
	return err
}

// createDir creates the file's directory if it does not exist.
func (d *DB) createDir() error {
	dir := filepath.Dir(d.path)
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf(
			"open store %s: the directory %s does not exist; create it, or use another path",
			d.path,
			filepath.Dir(dir),
		)
	case err != nil && !errors.Is(err, fs.ErrExist):
		if _, lost := os.Stat(dir); lost != nil { // an existing directory of a read-only file system is fine
			return d.classify(err)
		}
	}
	return nil
}

// createFile creates the file if it does not exist. Only the owner can access it, because runs contain complete
// conversations.
func (d *DB) createFile() error {
	f, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// dialect translates a statement of the store into SQLite's SQL.
func dialect(text string) string {
	text = strings.ReplaceAll(text, "NOW_MS", "CAST(unixepoch('subsec') * 1000 AS INTEGER)")
	text = strings.ReplaceAll(text, "BYTES", "BLOB")
	text = strings.ReplaceAll(text, "WITHOUT_ROWID", "WITHOUT ROWID")
	return strings.ReplaceAll(text, "$", "?")
}

// Close implements [database.DB].
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.closing)
	close(d.queue)
	close(d.priority)
	d.mu.Unlock()
	<-d.done
	return errors.Join(d.syncer.close(), d.writer.close(), d.readers.close(), d.writes.Close())
}

var errClosed = errors.New("database is closed")

func (d *DB) closedError() error {
	return &database.Error{Kind: database.Failed, Database: d.path, Err: errClosed}
}

// SingleWriter implements [database.DB].
func (*DB) SingleWriter() bool { return true }

// View implements [database.DB].
func (d *DB) View(ctx context.Context, fn func(database.Tx) error) error {
	select {
	case <-d.readers.turns:
		c, err := d.readers.take(ctx)
		if err != nil {
			return d.classify(err)
		}
		defer d.readers.put(c)
		return d.classify(c.read(ctx, fn))
	case <-d.closing:
		return d.closedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
