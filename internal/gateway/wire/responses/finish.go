package responses

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// End appends the events that end the answer.
func (s *stream) End(dst []byte, ends []wire.Item, finish string) []byte {
	dst = s.flush(dst)
	if s.isDangling() {
		dst = s.AddText(dst, abi.ChunkText, "")
	}
	if len(ends) == 0 {
		return s.endNew(dst, finish, nil)
	}
	for i := range ends {
		if it := &ends[i]; it.Kind == wire.End {
			dst = s.passEnd(dst, it.Event, finish)
		} else {
			dst = s.Pass(dst, it)
		}
	}
	return dst
}

// isDangling reports whether the last item that was written is reasoning whose following item was dropped.
func (s *stream) isDangling() bool {
	if !s.renumber || len(s.entries) == 0 || len(s.items) == 0 || s.items[len(s.items)-1].typ == "reasoning" {
		return false
	}
	last := s.entries[len(s.entries)-1].item
	return last != nil && last.typ == "reasoning"
}

// endNew appends the end of an answer for which there is no upstream.
func (s *stream) endNew(dst []byte, finish string, extra abi.Fields) []byte {
	dst = s.beginAnswer(dst)
	output := make([][]byte, 0, len(s.entries))
	for _, e := range s.entries {
		if e.item == nil {
			output = append(output, e.added)
		}
	}
	status, _ := outcome(finish)
	response := newResponse(s.responseID(), s.model, output, finish, s.usage)
	change := map[string][]byte{}
	for _, f := range extra {
		change[f.Name] = f.Value
	}
	return s.own(dst, "response."+status, field{"response", edit(response, change)})
}

// passEnd appends the event that ends the answer, with the items as they were written.
func (s *stream) passEnd(dst, raw []byte, finish string) []byte {
	e, err := readEvent(raw)
	if err != nil || !e.data.Exists() {
		return append(dst, raw...)
	}
	response := e.fields["response"]
	typ, change := e.typ, map[string][]byte{}
	changedStatus(change, s.finish, finish)
	if len(change) > 0 {
		status, _ := outcome(finish)
		typ = "response." + status
	}
	if s.renumber && len(response.Get("output").Elements()) > 0 {
		change["output"] = s.finalOutput(response.Get("output").Elements())
	}
	top := map[string][]byte{}
	if len(change) > 0 {
		top["response"] = edit(response.Text, change)
	}
	if typ != e.typ {
		top["type"] = rawjson.Quote(typ)
	}
	if s.renumber {
		top = s.numbers(e, nil, nil, top)
	}
	return s.sendEvent(dst, e, typ, top)
}

// finalOutput returns the output of the whole answer. elements is the output in the upstream's last
// event.
func (s *stream) finalOutput(elements []rawjson.Value) []byte {
	var out [][]byte
	at := 0
	added := func(to int) { // appends the items that were added before an entry
		for ; at < to; at++ {
			if s.entries[at].item == nil {
				out = append(out, s.entries[at].added)
			}
		}
	}
	for i, v := range elements {
		it := s.final[i]
		textChanges := it.textChanges()
		switch {
		case it.placed:
			added(it.entry)
		case it.call != nil, len(textChanges) > 0 && isEmpty(v, textChanges):
			continue
		}
		out = append(out, withTexts(v.Text, textChanges))
	}
	added(len(s.entries))
	return rawjson.Array(out)
}

// Error appends the event of an error that ends the stream. Codex retries an answer that failed, unless the
// code is invalid_prompt.
func (s *stream) Error(dst []byte, err *wire.Error) []byte {
	code := "invalid_prompt"
	switch err.Code {
	case wire.CodeBusy:
		code = "rate_limit_exceeded"
	case wire.CodeUpstream:
		code = "server_error"
	}
	fields := responseStart(s.responseID(), s.model, "failed")
	for i := range fields {
		if fields[i].name == "error" {
			fields[i].text = newObject(str("code", code), str("message", err.Message))
		}
	}
	return s.own(dst, "response.failed", field{"response", newObject(append(fields,
		raw("incomplete_details", "null"), raw("output", "[]"), raw("usage", "null"))...)})
}
