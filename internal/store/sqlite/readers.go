package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// readers is a pool of at most maxReaders reading connections. It opens a connection when all open
// ones are in use, and reuses the one that was returned last, because opening one parses the schema.
type readers struct {
	db    *sql.DB
	turns chan struct{} // contains an element for each connection that may be taken; waiting readers receive in FIFO order

	mu   sync.Mutex
	idle []*conn
}

func newReaders(db *sql.DB) *readers {
	r := &readers{db: db, turns: make(chan struct{}, maxReaders)}
	for range maxReaders {
		r.turns <- struct{}{}
	}
	return r
}

// take returns a connection after the caller has received from turns.
func (r *readers) take(ctx context.Context) (*conn, error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	c, err := newConn(ctx, r.db)
	if err != nil {
		r.turns <- struct{}{}
		return nil, err
	}
	return c, nil
}

func (r *readers) put(c *conn) {
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	r.turns <- struct{}{}
}

// close waits for the connections in use and closes all.
func (r *readers) close() (err error) {
	for range maxReaders {
		<-r.turns
	}
	for _, c := range r.idle {
		err = errors.Join(err, c.close())
	}
	return errors.Join(err, r.db.Close())
}
