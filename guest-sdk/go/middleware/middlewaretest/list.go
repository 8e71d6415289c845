package middlewaretest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A list is one list of messages, with its earlier revisions.
type list struct {
	id        int
	revisions []revision
}

type revision struct {
	number   int64
	messages []abi.Message
}

func (l *list) push(number int64, messages []abi.Message) {
	l.revisions = append(l.revisions, revision{number, messages})
}

func (l *list) now() []abi.Message {
	if len(l.revisions) == 0 {
		return nil
	}
	return l.revisions[len(l.revisions)-1].messages
}

// shown returns the list as an input contains it.
func (l *list) shown() abi.List {
	out := abi.List{List: l.id, Total: len(l.now())}
	if len(l.revisions) > 0 {
		out.Revision = l.revisions[len(l.revisions)-1].number
	}
	return out
}

// changed returns the index of the first message that changed since a revision.
// It returns 0 if the revision is unknown.
func (l *list) changed(number int64) int {
	i := slices.IndexFunc(l.revisions, func(r revision) bool { return r.number == number })
	if i < 0 {
		return 0
	}
	old, now := l.revisions[i].messages, l.now()
	for i := range min(len(old), len(now)) {
		if !reflect.DeepEqual(old[i], now[i]) {
			return i
		}
	}
	return min(len(old), len(now))
}

// set stores messages as the list's next revision. It assigns IDs to messages without one.
func (h *Host) set(l *list, messages []abi.Message) {
	messages = slices.Clone(messages)
	for i := range messages {
		if messages[i].ID == "" {
			h.ids++
			messages[i].ID = fmt.Sprintf("m%d", h.ids)
		}
	}
	h.revisions++
	l.push(h.revisions, messages)
}

// show sets *in, a list of an input, to the list with the given ID. If *in has items, show first
// makes them the messages of that list. If *in has no items and the list is not the state, show
// first makes the run's messages those of the list.
func (h *Host) show(in *abi.List, id int) {
	l := &h.lists[id]
	switch {
	case in.Items != nil:
		h.set(l, in.Items)
	case id != abi.ListState:
		h.set(l, h.Messages())
	}
	*in = l.shown()
}

// keep applies a successful hook's patch to the run's messages.
func (h *Host) keep(patch abi.ListPatch) error {
	if patch.IsZero() {
		return nil
	}
	messages, err := h.apply(h.Messages(), patch)
	if err == nil {
		h.set(&h.lists[abi.ListState], messages)
	}
	return err
}

// apply returns messages with a patch applied. A message that the patch removes and inserts again
// keeps its ID; other inserted messages have no ID yet.
func (h *Host) apply(messages []abi.Message, patch abi.ListPatch) ([]abi.Message, error) {
	if err := contract.CheckListPatch(&patch, len(messages)); err != nil {
		return nil, err
	}
	if patch.Whole {
		return h.own(patch.Replace, messages), nil
	}
	var out []abi.Message
	at := 0
	for _, s := range patch.Splice {
		out = append(out, messages[at:s.At]...)
		out = append(out, h.own(s.Insert, messages)...)
		at = s.At + s.Remove
	}
	return append(out, messages[at:]...), nil
}

// own returns a copy of the list put. In the copy, messages that are not in the list shown have
// this module's origin and no ID; [Host.set] assigns one.
func (h *Host) own(put, shown []abi.Message) []abi.Message {
	out := slices.Clone(put)
	for i := range out {
		known := slices.ContainsFunc(shown, func(m abi.Message) bool { return m.ID != "" && m.ID == out[i].ID })
		if !known {
			out[i].ID, out[i].Origin = "", abi.OriginModule+h.Entry
		}
	}
	return out
}
