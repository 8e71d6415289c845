package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

func insertEvents(t database.Tx, run string, first, last int64, b *blob.Body) error {
	if err := b.Adopt(t); err != nil {
		return err
	}
	_, err := t.Exec(`INSERT INTO run_events (run, first_seq, last_seq, body, pieces) VALUES ($1, $2, $3, $4, $5)`,
		run, first, last, b.InRow, b.Pieces)
	return err
}

// Events implements [journal.Journal].
func (s *store) Events(ctx context.Context, id string, after int64, limit int) ([]abi.Event, error) {
	return s.events(ctx, run, id, after, limit, math.MaxInt)
}

// events returns the events of a run with numbers greater than after. It returns at most limit
// events, and stops after the event that reaches maxBytes bytes. It looks up the run with find, and
// fails if find does.
func (s *store) events(
	ctx context.Context,
	find func(database.Tx, string) (*journal.RunInfo, error),
	id string,
	after int64,
	limit, maxBytes int,
) ([]abi.Event, error) {
	var out []abi.Event
	err := s.db.View(ctx, func(t database.Tx) error {
		out = nil
		if _, err := find(t, id); err != nil {
			return err
		}
		rows, err := eventRows(t, id, after, limit, maxBytes)
		if err != nil {
			return err
		}
		size := 0
		for i := range rows {
			lines, err := rows[i].read(t, after)
			if err != nil {
				return err
			}
			for line := range bytes.Lines(lines) {
				if size >= maxBytes || len(out) >= limit {
					return nil
				}
				var e abi.Event
				if err := json.Unmarshal(line, &e); err != nil {
					return database.Corruptf("an event of run %s: %w", id, err)
				}
				if e.Seq > after {
					out, size = append(out, e), size+len(line)
				}
			}
		}
		return nil
	})
	return out, err
}

// An eventRow is a row of events: one line for each event whose number is in [first, last].
type eventRow struct {
	first, last int64
	body        blob.Body
}

// read returns the row's lines. It omits the lines of events whose numbers are at most after, so
// that reading a large row in parts decodes each event once. If the row does not have one line for
// each event, read returns all lines.
func (r *eventRow) read(t database.Tx, after int64) ([]byte, error) {
	lines, err := r.body.Read(t)
	if err != nil || int64(bytes.Count(lines, []byte("\n"))) != r.last-r.first+1 {
		return lines, err
	}
	for range after - r.first + 1 {
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
	}
	return lines, nil
}

// eventRows returns the rows with the events that the method events returns for the same arguments.
func eventRows(t database.Tx, run string, after int64, limit, maxBytes int) (rows []eventRow, err error) {
	events, size := int64(0), 0
	err = t.Query(func(scan func(...any) error) error {
		var r eventRow
		if err := scan(&r.first, &r.last, &r.body.InRow, &r.body.Pieces); err != nil {
			return err
		}
		if events >= int64(limit) || size >= maxBytes {
			return errStop
		}
		n, err := r.body.Size()
		r.body.InRow = bytes.Clone(r.body.InRow)
		rows, events, size = append(rows, r), events+r.last-max(r.first-1, after), size+n
		return err
	}, `SELECT first_seq, last_seq, body, pieces FROM run_events WHERE run = $1 AND last_seq > $2 ORDER BY first_seq LIMIT $3`, run, after, int64(limit))
	if errors.Is(err, errStop) {
		err = nil
	}
	return rows, err
}

// A tally counts faults of modules, and tool calls that gates or approvers denied.
type tally struct {
	faults, denials int64
	denied          map[string]int64 // denials by the digest of the gate's module
}

// add counts an event, or the event of a sub-agent that it forwards.
func (n *tally) add(e *abi.Event) {
	for e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	switch {
	case e.Type == abi.EventFault:
		n.faults++
	case e.Type == abi.EventDecision && e.Decision != nil && e.Decision.Decision == abi.DecideDeny:
		n.denials++
		if e.Digest != "" {
			if n.denied == nil {
				n.denied = map[string]int64{}
			}
			n.denied[e.Digest]++
		}
	}
}

var (
	faultMark    = []byte(`"type":"fault"`)
	decisionMark = []byte(`"type":"decision"`)
)

// tallyOf counts the events of a commit.
func tallyOf(c *journal.Commit) (n tally, err error) {
	if c.Last < c.First {
		return n, nil
	}
	for line := range bytes.Lines(c.Events) {
		if !bytes.Contains(line, faultMark) && !bytes.Contains(line, decisionMark) {
			continue
		}
		var e abi.Event
		if _, err := abijson.Decode(line, &e); err != nil {
			return n, err
		}
		n.add(&e)
	}
	return n, nil
}

// countEventsOf adds the faults and denials of a commit to its run.
func countEventsOf(t database.Tx, c *journal.Commit) error {
	n, err := tallyOf(c)
	if err != nil || n.faults+n.denials == 0 {
		return err
	}
	var column string
	if _, err := database.One(t, `SELECT denied FROM runs WHERE id = $1`, []any{c.Run}, &column); err != nil {
		return err
	}
	if len(n.denied) > 0 {
		denied := map[string]int64{}
		if column != "" {
			if err := json.Unmarshal([]byte(column), &denied); err != nil {
				return database.Corruptf("run %s: %w", c.Run, err)
			}
		}
		for digest, count := range n.denied {
			denied[digest] += count
		}
		if column, err = marshal(denied); err != nil {
			return err
		}
	}
	if _, err := t.Exec(`UPDATE runs SET faults = faults + $2, denials = denials + $3, denied = $4 WHERE id = $1`,
		c.Run, n.faults, n.denials, column); err != nil {
		return err
	}
	var marks []string
	if n.faults > 0 {
		marks = append(marks, terms.Faults)
	}
	if n.denials > 0 {
		marks = append(marks, terms.Denials)
	}
	return terms.Change(t, c.Run, marks, nil)
}

// countFinished makes a run that has finished findable by its finish reason, and adds it to its tenant's series. The
// series have no runs of the operator and of sub-agents.
func (s *store) countFinished(t database.Tx, id string) error {
	r, err := run(t, id)
	if err != nil {
		return err
	}
	if r.FinishReason != "" {
		if err := terms.Change(t, id, []string{terms.FinishReason(r.FinishReason)}, nil); err != nil {
			return err
		}
	}
	if r.Tenant == Operator || r.Parent != "" {
		return nil
	}
	return s.addToSeries(scoped{t, r.Tenant}, r)
}
