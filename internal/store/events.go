package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

func insertEvents(t database.Tx, run string, first, last int64, b *blob.Body) error {
	if err := b.Adopt(t); err != nil {
		return err
	}
	_, err := t.Exec(
		`INSERT INTO run_events (run, first_seq, last_seq, body, pieces) VALUES ($1, $2, $3, $4, $5)`,
		run,
		first,
		last,
		b.InRow,
		b.Pieces,
	)
	return err
}

// Events implements [journal.Journal].
func (s *store) Events(ctx context.Context, id string, after int64, limit int) ([]abi.Event, error) {
	return s.events(ctx, id, after, limit, math.MaxInt)
}

// events returns the events of a run after event number after. It stops at the row that reaches
// limit events or maxBytes bytes.
func (s *store) events(ctx context.Context, id string, after int64, limit, maxBytes int) ([]abi.Event, error) {
	var out []abi.Event
	err := s.db.View(ctx, func(t database.Tx) error {
		out = nil
		if _, err := run(t, id); err != nil {
			return err
		}
		bodies, err := eventBodies(t, id, after, limit, maxBytes)
		if err != nil {
			return err
		}
		for i := range bodies {
			lines, err := bodies[i].Read(t)
			if err != nil {
				return err
			}
			for line := range bytes.Lines(lines) {
				var e abi.Event
				if err := json.Unmarshal(line, &e); err != nil {
					return database.Corruptf("an event of run %s: %w", id, err)
				}
				if e.Seq > after {
					out = append(out, e)
				}
			}
		}
		return nil
	})
	return out, err
}

// eventBodies returns the rows whose events the method events returns.
func eventBodies(t database.Tx, run string, after int64, limit, maxBytes int) (rows []blob.Body, err error) {
	events, size := int64(0), 0
	err = t.Query(func(scan func(...any) error) error {
		var first, last int64
		var b blob.Body
		if err := scan(&first, &last, &b.InRow, &b.Pieces); err != nil {
			return err
		}
		if events >= int64(limit) || size >= maxBytes {
			return errEnough
		}
		n, err := b.Size()
		b.InRow = bytes.Clone(b.InRow)
		rows, events, size = append(rows, b), events+last-max(first-1, after), size+n
		return err
	}, `SELECT first_seq, last_seq, body, pieces FROM run_events WHERE run = $1 AND last_seq > $2 ORDER BY first_seq LIMIT $3`, run, after, int64(limit))
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}
