package responses

import (
	"strconv"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// end reads the event that ends the answer. It repeats all items.
func (s *stream) end(e *event) ([]wire.Item, error) {
	if !e.fields["response"].IsObject() {
		return nil, upstream("the upstream's answer ends without a response")
	}
	response := members(e.fields["response"])
	if err := response.checkUpstream(); err != nil {
		return nil, err
	}
	noteCustom(s.custom, response["tools"])
	var items []wire.Item
	elements := response["output"].Elements()
	if len(elements) > maxBlocks {
		return nil, upstream("the upstream's answer has more than %d items", maxBlocks)
	}
	m := matcher{stream: s, ids: map[string]*streamItem{}, next: map[string]int{}}
	for _, it := range s.items {
		m.ids[it.id] = it
	}
	for i, v := range elements {
		o, err := readOutput(v, "output["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		more, err := m.match(o)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	s.final = m.final
	s.usage, s.finish = readUsage(response), finishReason(response, len(s.calls) > 0)
	if e.typ == "response.failed" {
		s.finish, s.failure = "", response["error"].Text
		if response["error"].IsNull() {
			s.failure = []byte(`{"message":"the answer failed"}`)
		}
	}
	s.ended = true
	return append(items, wire.Item{Kind: wire.End, Block: noBlock, Event: e.raw}), nil
}

// A matcher finds the items that the end of an answer repeats.
type matcher struct {
	*stream
	final []*streamItem
	ids   map[string]*streamItem // by ID
	next  map[string]int         // where the search for the next item of a type begins
	free  int64                  // no smaller output_index is free
}

// match finds or adds the item that o repeats, and returns the items of the stream that complete it.
func (m *matcher) match(o *output) ([]wire.Item, error) {
	it, items := m.find(o), []wire.Item(nil)
	if it == nil {
		var err error
		it, err = m.newItem(&event{fields: object{"output_index": rawjson.Value{Text: m.freeIndex()}}}, o)
		if err != nil {
			return nil, err
		}
		it.last = true
		items = m.openQuiet(it)
	}
	if it.repeated {
		return nil, upstream("the upstream's answer ends with two items that have the same ID")
	}
	it.repeated = true
	m.final = append(m.final, it)
	more, err := m.complete(it, o, silent)
	return append(items, more...), err
}

// find returns the item that o repeats: the call or item with its ID, otherwise the next item of its type. Some
// upstreams give items other IDs at the end, or none at all.
func (m *matcher) find(o *output) *streamItem {
	if o.call != nil {
		if b := m.calls[o.call.id]; b != nil {
			return b.item
		}
		return nil
	}
	if it := m.ids[o.id]; it != nil && o.id != "" && it.typ == o.typ {
		return it
	}
	i := m.next[o.typ]
	for ; i < len(m.items); i++ {
		it := m.items[i]
		if it.typ == o.typ && it.call == nil && !it.repeated && (it.id == "") == (o.id == "") {
			break
		}
	}
	m.next[o.typ] = i + 1
	if i < len(m.items) {
		return m.items[i]
	}
	return nil
}

// freeIndex returns an output_index that no item has.
func (m *matcher) freeIndex() []byte {
	for m.byPos[m.free] != nil {
		m.free++
	}
	return strconv.AppendInt(nil, m.free, 10)
}
