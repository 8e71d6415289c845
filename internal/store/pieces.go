package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// How large bytes are written. Whoever writes waits for what is written to SQLite's log
// before, and a megabyte in one transaction takes 5 to 9 ms, as long as ten small ones. Bytes of two
// pieces are in their row still: two more waits for the disk would cost their writer more
// than they spare others.
const (
	pieceBytes  = 64 << 10
	mostInRow   = 2 * pieceBytes
	longestRest = 20 * time.Millisecond // behind a piece
	stagedLasts = time.Hour             // behind the last piece, until they are nobody's
	mostAtOnce  = 64 << 20              // bytes that there is room made for before there are so many
	dropBatch   = 8                     // pieces that are deleted before the clock is looked at
	discardTime = 5 * time.Second       // at most, for who has failed already
)

// A body is bytes as a row has them: in the row, or in pieces, which were written before it.
//
// Pieces are staged at first: no row has their id. The transaction that writes the row
// takes them. What is staged and not taken is deleted, at once if that transaction fails,
// or by [store.sweep]; and who deletes a row stages its pieces again, to be swept.
type body struct {
	inRow  []byte
	pieces string // their id, which ends in how many bytes they are; empty: they are in the row
	taken  bool
}

// staged calls write with bytes as rows are to have them, and deletes those that its
// transaction did not take. With each piece sign is called, if it is not nil. If abort is
// closed before write is called, it fails with [agent.ErrAborted].
func (s *store) staged(ctx context.Context, abort <-chan struct{}, sign func(tx) error, write func([]*body) error, all ...[]byte) (err error) {
	var bodies []*body
	defer func() {
		for _, b := range bodies {
			if b.pieces != "" && (err != nil || !b.taken) {
				s.discard(ctx, b.pieces)
			}
		}
	}()
	for _, bytes := range all {
		b := &body{inRow: bytes}
		bodies = append(bodies, b)
		if len(bytes) <= mostInRow {
			continue
		}
		b.inRow, b.pieces = []byte{}, fmt.Sprintf("%s-%d", newSecret(20, 32), len(bytes))
		if err := s.stage(ctx, abort, b.pieces, bytes, sign); err != nil {
			return err
		}
	}
	return write(bodies)
}

// stage writes pieces. One piece of all those that are being written is written at a time,
// and after each the database is left to others for as long as it took. Pieces of an urgent
// write wait for none of that.
func (s *store) stage(ctx context.Context, abort <-chan struct{}, id string, bytes []byte, sign func(tx) error) error {
	for n := 0; n*pieceBytes < len(bytes); n++ {
		done, err := s.pieceTurn(ctx, abort)
		if err != nil {
			return err
		}
		err = s.update(ctx, false, func(t tx) error {
			if err := stagePiece(t, id, int64(n), bytes[n*pieceBytes:min((n+1)*pieceBytes, len(bytes))]); err != nil || sign == nil {
				return err
			}
			return sign(t)
		})
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// pieceTurn waits until a piece may be written. done is called once it is.
func (s *store) pieceTurn(ctx context.Context, abort <-chan struct{}) (done func(), err error) {
	select {
	case <-abort:
		return nil, journal.ErrAborted
	default:
	}
	if isUrgent(ctx) {
		return func() {}, nil
	}
	select {
	case s.piece <- struct{}{}:
	case <-abort:
		return nil, journal.ErrAborted
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	return func() { time.AfterFunc(min(time.Since(began), longestRest), func() { <-s.piece }) }, nil
}

// errSwept is the error of who was so slow that the pieces were swept.
func errSwept() error {
	return ownError{&Error{Gone, "", fmt.Errorf("nothing of large bytes was written for %v", stagedLasts)}}
}

func stagePiece(t tx, id string, n int64, bytes []byte) error {
	stage := `INSERT INTO staged (id, written_ms) VALUES ($1, NOW_MS)`
	if n > 0 {
		stage = `UPDATE staged SET written_ms = NOW_MS WHERE id = $1 AND written_ms > 0`
	}
	found, err := t.exec(stage, id)
	if err == nil && found == 0 {
		err = errSwept()
	}
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO pieces (id, piece, body) VALUES ($1, $2, $3)`, id, n, bytes)
	return err
}

// take makes the pieces those of the row that this transaction writes.
func (b *body) take(t tx) error {
	if b.pieces == "" {
		return nil
	}
	n, err := t.exec(`DELETE FROM staged WHERE id = $1 AND written_ms > 0`, b.pieces)
	if err == nil && n == 0 {
		err = errSwept()
	}
	b.taken = err == nil
	return err
}

// whole returns the bytes of a row.
func (b *body) whole(t tx) ([]byte, error) {
	if b.pieces == "" {
		return b.inRow, nil
	}
	size, err := b.size()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, min(size, mostAtOnce))
	next := int64(0)
	err = t.query(func(scan func(...any) error) error {
		var n int64
		var piece sql.RawBytes
		if err := scan(&n, &piece); err != nil {
			return err
		}
		if n != next || len(out)+len(piece) > size {
			return corruptPieces(b.pieces, n)
		}
		next++
		out = append(out, piece...)
		return nil
	}, `SELECT piece, body FROM pieces WHERE id = $1 ORDER BY piece`, b.pieces)
	if err == nil && len(out) < size {
		err = corruptPieces(b.pieces, next)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// size is how many bytes it is.
func (b *body) size() (int, error) {
	if b.pieces == "" {
		return len(b.inRow), nil
	}
	_, text, _ := strings.Cut(b.pieces, "-")
	size, err := strconv.Atoi(text)
	if err != nil || size < 0 {
		return 0, corruptPieces(b.pieces, 0)
	}
	return size, nil
}

func corruptPieces(id string, n int64) error {
	return ownError{&Error{Corrupt, "", fmt.Errorf("piece %d of large bytes %s is not as it was written", n, id)}}
}

// discard deletes pieces that are staged. What it leaves is swept.
func (s *store) discard(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_ = inTurns(ctx, func() (bool, error) {
		if len(ids) == 0 {
			return false, nil
		}
		return true, s.update(ctx, false, func(t tx) (err error) {
			ids, err = drop(t, ids, -stagedLasts)
			return err
		})
	})
}

// sweep deletes pieces that no row has, and nobody is about to take.
func (s *store) sweep(ctx context.Context) error {
	return inTurns(ctx, func() (bool, error) {
		var ids []string
		if err := s.view(ctx, func(t tx) error {
			return t.query(func(scan func(...any) error) error {
				var id string
				err := scan(&id)
				ids = append(ids, id)
				return err
			}, `SELECT id FROM staged WHERE written_ms <= NOW_MS - $1 ORDER BY written_ms, id LIMIT $2`, stagedLasts.Milliseconds(), int64(forgetBatch))
		}); err != nil || len(ids) == 0 {
			return false, err
		}
		return true, s.update(ctx, false, func(t tx) error {
			_, err := drop(t, ids, stagedLasts)
			return err
		})
	})
}

// drop deletes pieces that were staged for as long as age, until its time is over. It
// returns those that are left.
func drop(t tx, ids []string, age time.Duration) (rest []string, err error) {
	began := time.Now()
	for i, id := range ids {
		// From here on nobody takes them, nor adds to them.
		n, err := t.exec(`UPDATE staged SET written_ms = 0 WHERE id = $1 AND written_ms <= NOW_MS - $2`, id, age.Milliseconds())
		if err != nil {
			return ids, err
		}
		for n > 0 {
			if n, err = t.exec(`DELETE FROM pieces WHERE id = $1 AND piece IN (SELECT piece FROM pieces WHERE id = $1 ORDER BY piece LIMIT $2)`, id, int64(dropBatch)); err != nil {
				return ids, err
			}
			if time.Since(began) > forgetTime {
				return ids[i:], nil
			}
		}
		if _, err := t.exec(`DELETE FROM staged WHERE id = $1 AND written_ms = 0`, id); err != nil {
			return ids, err
		}
	}
	return nil, nil
}

// unrefer stages the pieces of a table's rows of a run, which are about to be deleted.
func unrefer(t tx, table, run string) (ids []string, err error) {
	err = t.query(func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `INSERT INTO staged (id, written_ms) SELECT pieces, 0 FROM `+table+` WHERE run = $1 AND pieces <> '' RETURNING id`, run)
	return ids, err
}
