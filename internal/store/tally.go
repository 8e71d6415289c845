package store

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
	var terms []string
	if n.faults > 0 {
		terms = append(terms, faultsTerm)
	}
	if n.denials > 0 {
		terms = append(terms, denialsTerm)
	}
	return changeTerms(t, c.Run, terms, nil)
}

// countFinished makes a run that has finished findable by its finish reason, and adds it to its tenant's series. The
// series have no runs of the operator and of sub-agents.
func (s *store) countFinished(t database.Tx, id string) error {
	r, err := run(t, id)
	if err != nil {
		return err
	}
	if r.FinishReason != "" {
		if err := changeTerms(t, id, []string{reasonTerm(r.FinishReason)}, nil); err != nil {
			return err
		}
	}
	if r.Tenant == Operator || r.Parent != "" {
		return nil
	}
	return s.addToSeries(scoped{t, r.Tenant}, r)
}
