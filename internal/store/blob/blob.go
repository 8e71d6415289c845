// Package blob stores byte strings of any size in rows of the store. If the database runs one writing
// transaction at a time, it writes large ones in pieces, each in its own transaction before the
// transaction of their row, so that no transaction delays other writers for long. Earlier versions did
// so in every database. Reading a row returns the complete bytes.
//
// A piece is staged at first: no row refers to it. The transaction of the row adopts it.
// Staged pieces that are not adopted are deleted: at once if that transaction fails, or by
// [Writer.Sweep]. Deleting a row releases its pieces, which [Writer.Sweep] deletes.
//
// The package uses the tables pieces and staged, and imports only package database of this
// project.
package blob

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// PieceBytes is the size of a piece. A write waits for all bytes that precede it in SQLite's
// log, and a transaction of 1 MB takes 5 to 9 ms, as long as ten small ones.
const PieceBytes = 64 << 10

const (
	// maxInRow is the maximum number of bytes that are stored in their row if the database runs one writing
	// transaction at a time. Two pieces would need
	// two more fsyncs, which would cost the writer more than they save other writers.
	maxInRow = 2 * PieceBytes
	maxPause = 20 * time.Millisecond // maximum pause after writing a piece
	// stagedTTL is the time after which staged pieces count as orphaned. It begins when the last of
	// them was written.
	stagedTTL   = time.Hour
	maxPrealloc = 64 << 20 // bytes allocated before the first piece is read
)

// ErrAborted is the error of a write whose Abort channel was closed.
var ErrAborted = errors.New("the write was aborted")

// A Body is a byte string as its row stores it: in the row itself, or in pieces.
type Body struct {
	InRow   []byte
	Pieces  string // id of the pieces, which ends in the number of bytes; empty if the bytes are in the row
	adopted bool
}

// A Writer writes bodies. It is safe for concurrent use. It writes one piece at a time; only the
// pieces of priority writes are written concurrently with others.
type Writer struct {
	db    database.DB
	inRow int           // maximum number of bytes that are stored in their row
	turn  chan struct{} // semaphore: holds a value while a piece is written, and during the pause after it
}

// NewWriter returns a writer that stores bodies in db.
func NewWriter(db database.DB) *Writer {
	w := &Writer{db: db, inRow: math.MaxInt, turn: make(chan struct{}, 1)}
	if db.SingleWriter() {
		w.inRow = maxInRow
	}
	return w
}

// Options configure a call of [Writer.Write].
type Options struct {
	// Abort, when closed, makes a write fail with [ErrAborted] unless its rows are being
	// written already.
	Abort <-chan struct{}
	// EachPiece, if not nil, is called in the transaction of each piece.
	EachPiece func(database.Tx) error
	// Priority writes do not wait for other bodies.
	Priority bool
}

// Write stages the pieces of the large byte strings in all, and calls write with one body for each
// byte string, in the order of all. write must insert the rows of the bodies and call [Body.Adopt]
// in the same transaction. Write then deletes the pieces that were not adopted.
func (w *Writer) Write(ctx context.Context, o Options, write func([]*Body) error, all ...[]byte) (err error) {
	var bodies []*Body
	defer func() {
		for _, b := range bodies {
			if b.Pieces != "" && (err != nil || !b.adopted) {
				w.Discard(ctx, b.Pieces)
			}
		}
	}()
	for _, bytes := range all {
		b := &Body{InRow: bytes}
		bodies = append(bodies, b)
		if len(bytes) <= w.inRow {
			continue
		}
		b.InRow, b.Pieces = []byte{}, fmt.Sprintf("%s-%d", rand.Text(), len(bytes))
		if err := w.stage(ctx, o, b.Pieces, bytes); err != nil {
			return err
		}
	}
	return write(bodies)
}

// stage writes bytes as staged pieces with an id, each piece in its own transaction.
func (w *Writer) stage(ctx context.Context, o Options, id string, bytes []byte) error {
	for n := 0; n*PieceBytes < len(bytes); n++ {
		done, err := w.wait(ctx, o)
		if err != nil {
			return err
		}
		err = w.db.Update(ctx, database.TxOptions{Priority: o.Priority}, func(t database.Tx) error {
			if err := stagePiece(t, id, int64(n), bytes[n*PieceBytes:min((n+1)*PieceBytes, len(bytes))]); err != nil ||
				o.EachPiece == nil {
				return err
			}
			return o.EachPiece(t)
		})
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// wait waits until the caller may write a piece. The caller must call done after it has written the piece. The next
// piece may be written after a pause that is as long as this write took, but at most maxPause, so that other writers
// of the database are not delayed. Priority writes neither wait nor pause.
func (w *Writer) wait(ctx context.Context, o Options) (done func(), err error) {
	select {
	case <-o.Abort:
		return nil, ErrAborted
	default:
	}
	if o.Priority {
		return func() {}, nil
	}
	select {
	case w.turn <- struct{}{}:
	case <-o.Abort:
		return nil, ErrAborted
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	start := time.Now()
	return func() { time.AfterFunc(min(time.Since(start), maxPause), func() { <-w.turn }) }, nil
}

// errSwept returns the error of a writer whose pieces were swept because it was too slow.
func errSwept() error {
	return database.ForCaller(&database.Error{Kind: database.Unavailable,
		Err: fmt.Errorf("no piece of the large bytes was written for %v", stagedTTL)})
}

func stagePiece(t database.Tx, id string, n int64, bytes []byte) error {
	stage := `INSERT INTO staged (id, written_ms) VALUES ($1, NOW_MS)`
	if n > 0 {
		stage = `UPDATE staged SET written_ms = NOW_MS WHERE id = $1 AND written_ms > 0`
	}
	changed, err := t.Exec(stage, id)
	if err == nil && changed == 0 {
		err = errSwept()
	}
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO pieces (id, piece, body) VALUES ($1, $2, $3)`, id, n, bytes)
	return err
}

// Adopt attaches the body's pieces, if it has any, to the row that this transaction writes. It
// fails if the pieces have been swept, because their writer was too slow.
func (b *Body) Adopt(t database.Tx) error {
	if b.Pieces == "" {
		return nil
	}
	n, err := t.Exec(`DELETE FROM staged WHERE id = $1 AND written_ms > 0`, b.Pieces)
	if err == nil && n == 0 {
		err = errSwept()
	}
	b.adopted = err == nil
	return err
}

// Read returns the bytes. It fails with a [*database.Error] of kind [database.Corrupt] if a
// piece is missing or the sizes do not add up.
func (b *Body) Read(t database.Tx) ([]byte, error) {
	if b.Pieces == "" {
		return b.InRow, nil
	}
	size, err := b.Size()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, min(size, maxPrealloc))
	next := int64(0)
	err = t.Query(func(scan func(...any) error) error {
		var n int64
		var piece sql.RawBytes
		if err := scan(&n, &piece); err != nil {
			return err
		}
		if n != next || len(out)+len(piece) > size {
			return corrupt(b.Pieces, n)
		}
		next++
		out = append(out, piece...)
		return nil
	}, `SELECT piece, body FROM pieces WHERE id = $1 ORDER BY piece`, b.Pieces)
	if err == nil && len(out) < size {
		err = corrupt(b.Pieces, next)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Size returns the number of bytes. It fails with a [*database.Error] of kind [database.Corrupt] if
// the id of the pieces is damaged.
func (b *Body) Size() (int, error) {
	if b.Pieces == "" {
		return len(b.InRow), nil
	}
	_, text, _ := strings.Cut(b.Pieces, "-")
	size, err := strconv.Atoi(text)
	if err != nil || size < 0 {
		return 0, corrupt(b.Pieces, 0)
	}
	return size, nil
}

func corrupt(id string, n int64) error {
	return database.Corruptf("piece %d of the large bytes %s is missing or damaged", n, id)
}

// Copy copies the pieces with the given id, and returns the id of the copy. The caller stores that id in
// a row in the same transaction.
func Copy(t database.Tx, id string) (string, error) {
	_, size, _ := strings.Cut(id, "-")
	to := rand.Text() + "-" + size
	_, err := t.Exec(
		`INSERT INTO pieces (id, piece, body) SELECT CAST($2 AS TEXT), piece, body FROM pieces WHERE id = $1`,
		id,
		to,
	)
	return to, err
}
