package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// An eraser records whether modules changed or removed text in a [runlog.Window]. If they did, the
// eraser prepares a [journal.Rewrite] that erases the originals from the journal when the window
// ends, or when the run pauses within the window. The recorder's lock guards an eraser.
type eraser struct {
	seen    *message.List    // messages when they were last recorded
	entries int64            // number of entries in the log
	first   int64            // the entry in which the window begins, or an earlier one
	begun   bool             // a window begins in the next entry
	rewrite *journal.Rewrite // what the next commit erases; nil if it erases nothing
}

// noteMessages records whether modules changed or removed messages of the window. from is the index
// of the first message that may have changed since the last call. If messages before the window
// changed, noteMessages updates the index at which the window begins.
func (e *eraser) noteMessages(s *runlog.State, from int) {
	was, w := e.seen, &s.Window
	e.seen = s.Messages
	if was == nil || from >= was.Len() {
		return
	}
	now := indexes(s.Messages, from)
	first := s.Messages.Len()
	for i := max(from, w.From); i < was.Len(); i++ {
		at, ok := now[was.At(i).ID]
		if !ok || !bytes.Equal(jsonAt(was, i), jsonAt(s.Messages, at)) {
			w.Removed = true
		}
		if ok {
			first = min(first, at)
		}
	}
	if from < w.From {
		w.From = first
	}
}

// noteAnswers compares the state with the recorded answers of the model and of tools in the phase
// that ended. It records whether modules changed or removed one of the answers.
func (e *eraser) noteAnswers(s *runlog.State, rec *record.Record) {
	w := &s.Window
	rec.Answers(func(call string, answer json.RawMessage) {
		i := slices.IndexFunc(s.Calls, func(c runlog.CallState) bool { return c.Call.ID == call })
		if call == "" && !isLast(s.Messages, answer) || i >= 0 && !isResult(&s.Calls[i], answer) {
			w.Removed = true
		}
	})
}

// isLast reports whether the last message of l is the message in the model's answer.
func isLast(l *message.List, answer json.RawMessage) bool {
	m, ok := bytes.CutPrefix(answer, []byte(`{"message":`))
	return ok && l.Len() > 0 && bytes.HasPrefix(m, jsonAt(l, l.Len()-1))
}

// isResult reports whether the result and the message of call c have the content of the tool's
// answer.
func isResult(c *runlog.CallState, answer json.RawMessage) bool {
	b, err := abijson.Marshal(c.Result)
	if c.Result == nil || err != nil || !bytes.Contains(answer, b) && !bytes.Contains(answer, beforeLabels(b)) {
		return false
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		if m.ToolCallID != c.Call.ID || c.Result.Content.IsNull() {
			continue
		}
		content, err := m.Content.MarshalJSON()
		if err != nil || !bytes.HasPrefix(b, append([]byte(`{"content":`), content...)) {
			return false
		}
	}
	return true
}

// beforeLabels returns the JSON of a labelled result up to its labels, which are the last field. b
// is the JSON of the result without labels. Only the answer of a sub-agent has labels; the state
// stores them with the call's messages instead.
func beforeLabels(b []byte) []byte {
	return slices.Concat(bytes.TrimSuffix(b, []byte("}")), []byte(`,"labels":[`))
}

// erase adds the phases of the window before phase end to the next rewrite. It does nothing if
// modules changed and removed nothing in the window.
func (e *eraser) erase(s *runlog.State, end int64) {
	w := &s.Window
	if !w.Removed {
		return
	}
	if e.rewrite == nil {
		e.rewrite = &journal.Rewrite{First: e.first, Phases: map[int64]bool{}}
	}
	if w.Phase == 0 { // the window contains the input
		title := runlog.Title(s.Messages)
		e.rewrite.Title = &title
	}
	for p := w.Phase; p < end; p++ {
		e.rewrite.Phases[p] = s.Calls == nil
	}
	messages := s.Messages
	left := sync.OnceValue(func() map[string]int { return indexes(messages, 0) })
	e.rewrite.Message = func(id string) json.RawMessage {
		if i, ok := left()[id]; ok {
			return jsonAt(messages, i)
		}
		return nil
	}
}

// commit returns the rewrite for the next commit, or nil if there is none. It counts the commit's
// entry of the log.
func (e *eraser) commit() *journal.Rewrite {
	r := e.rewrite
	e.entries, e.rewrite = e.entries+1, nil
	if e.begun {
		e.first, e.begun = e.entries, false
	}
	return r
}

// indexes maps the ids of the messages in l, starting at index from, to their indexes.
func indexes(l *message.List, from int) map[string]int {
	out := make(map[string]int, l.Len()-from)
	for i := from; i < l.Len(); i++ {
		out[l.At(i).ID] = i
	}
	return out
}

// jsonAt returns message i as JSON.
func jsonAt(l *message.List, i int) json.RawMessage {
	b := l.JSON(i, i+1)
	return b[1 : len(b)-1] // remove the brackets of the array
}

// endPhase records what modules changed or removed in the phase that ended, drops the calls of a
// finished round, and ends the window if the next phase is the model call. It does nothing if the
// journal keeps originals. Callers hold mu.
func (k *recorder) endPhase(head *runlog.State) {
	s, e := &k.run.state, &k.eraser
	if k.Originals {
		return
	}
	e.noteAnswers(s, k.run.chain.Record)
	e.noteMessages(s, s.Messages.Changed(k.revision))
	if s.Phase == runlog.PhaseModel || s.Phase == runlog.PhaseEnd {
		s.Calls = nil // the round is over
	}
	if s.Phase == runlog.PhaseModel {
		e.erase(s, k.phase)
		s.Window, e.begun = runlog.Window{Phase: k.phase, From: s.Messages.Len()}, true
	}
	head.Window = s.Window
}

// endPart adds the window of a run that finishes or pauses to the next rewrite, unless the journal
// keeps originals. Callers hold mu.
func (k *recorder) endPart(status journal.Status) {
	end := k.phase
	if status == journal.StatusFinished {
		end++ // no process repeats the last phase
	}
	if !k.Originals {
		k.eraser.erase(&k.run.state, end)
	}
}

// removedInside records that a sub-agent's run erased something. The log of the sub-agent's run is
// part of this run's log.
func (k *recorder) removedInside() {
	k.run.mu.Lock()
	w := &k.run.state.Window
	w.Removed = true
	k.run.mu.Unlock()
	k.head()
}
