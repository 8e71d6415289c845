package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A history is an index of a run's messages. Each update reads only new messages, so the cost of a
// call does not grow with the run. The history is a cache in the module's memory: an instance without
// it reads all messages again.
type history struct {
	run     string
	read    int    // number of messages read
	last    string // ID of the last message read
	user    *speech
	request *request
	asked   int               // index of the message with the request
	calls   map[string]called // calls without a result, by ID
	sources []source
	indexed int // number of sources whose values are in values
	// values maps the hash of a value to the latest posting of the value: its index in postings.
	values   map[uint64]int32
	postings []posting
	refused  refusals
}

// A called is a call of a tool in the conversation.
type called struct {
	tool string
	at   int // index of the message with the call
}

// block is the number of messages that one host call reads.
const block = 64

// update reads the messages that are new since the last call.
func (p *policy) update(ctx *middleware.Context) error {
	h := &p.history
	if h.run != ctx.Run.ID || h.user == nil {
		h.reset(ctx.Run.ID)
	}
	for size := block; ; {
		from := max(h.read-1, 0)
		got, err := ctx.Messages(from, from+size)
		if failed, ok := errors.AsType[*abi.Error](err); ok && failed.Code == abi.CodeLimit && size > 2 {
			size /= 2
			continue
		}
		if err != nil {
			return err
		}
		more := len(got) == size
		if h.read > 0 {
			if len(got) == 0 || got[0].ID != h.last {
				h.reset(ctx.Run.ID) // another module changed the messages
				continue
			}
			got = got[1:]
		}
		for i := range got {
			if err := p.learn(ctx, &got[i]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

func (h *history) reset(run string) {
	*h = history{
		run: run, user: newSpeech(maxSpeech), calls: map[string]called{},
		values: map[uint64]int32{}, postings: make([]posting, 1),
	}
	h.request = (*request)(nil).follow("", "")
}

// maxCalls bounds the number of calls without a result in history.calls.
const maxCalls = 4096

// learn adds the next message of the run to the history.
func (p *policy) learn(ctx *middleware.Context, m *abi.Message) error {
	h := &p.history
	s := source{at: h.read, id: m.ID}
	h.read, h.last = h.read+1, m.ID
	tool := m.Name
	if c, ok := h.calls[m.ToolCallID]; ok && m.Role == abi.RoleTool {
		tool, s.call, s.calledAt = c.tool, m.ToolCallID, c.at
		delete(h.calls, m.ToolCallID)
	}
	labels := labelsOf(ctx, m, tool)
	s.from = p.foreign(labels)
	switch m.Role {
	case abi.RoleTool:
		if m.Origin == abi.OriginModule+ctx.Entry {
			return h.refused.note(ctx, m.ToolCallID) // the module's own denial has no other text
		}
		if len(s.from) == 1 && s.from[0] == abi.LabelTool+tool {
			s.tool = tool
		}
		p.result(m, &s)
	case abi.RoleAssistant:
		for i := range m.ToolCalls {
			if len(h.calls) < maxCalls {
				h.calls[m.ToolCalls[i].ID] = called{m.ToolCalls[i].Function.Name, s.at}
			}
		}
		if slices.ContainsFunc(s.from, isOthers) {
			h.sources = append(h.sources, s)
		}
	default:
		p.spoken(m, labels, &s)
	}
	return nil
}

// spoken adds a message of the user or the system to the history: trusted parts to the user's words,
// and other parts to the sources.
func (p *policy) spoken(m *abi.Message, labels []string, s *source) {
	h := &p.history
	text, isUsers := p.trustedText(m, labels)
	if text != "" {
		h.user.add(text)
	}
	if isUsers {
		h.request = h.request.follow(m.ID, text)
		if len(h.request.texts) == 1 {
			h.asked = s.at
		}
		h.refused.unasked = false
	}
	if len(s.from) > 0 {
		h.sources = append(h.sources, *s)
	}
}

// A posting is a source with a value in its records.
type posting struct {
	source int32 // index in history.sources
	next   int32 // index of the next posting of the value, or 0
}

// maxValues bounds the number of postings. [history.named] finds no further values.
const maxValues = 100_000

// hash returns the FNV-1a hash of a value. Callers must compare values with equal hashes.
func hash(v string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(v) {
		h = (h ^ uint64(v[i])) * 1099511628211
	}
	return h
}

// result adds a tool's result to the history's sources, and its trusted fields to the user's words. A
// result that the configuration trusts as a whole is added only to the user's words.
func (p *policy) result(m *abi.Message, s *source) {
	h := &p.history
	if len(s.from) == 0 {
		h.user.add(m.Content.String())
		return
	}
	h.sources = append(h.sources, *s)
	trusted := p.trustedFields(s.tool)
	if len(trusted) == 0 || !s.hasRecords() {
		return
	}
	for _, r := range recordsOf(m.Content.String()) {
		for _, f := range r.fields {
			if slices.Contains(trusted, f.key) {
				h.user.add(f.text)
			}
		}
	}
}

// index adds the values of new sources to h.values. It is called only for values that the user did
// not write, which most conversations do not have.
func (h *history) index(ctx *middleware.Context) {
	for ; h.indexed < len(h.sources); h.indexed++ {
		s := &h.sources[h.indexed]
		if !s.hasRecords() {
			continue
		}
		eachToken(s.text(ctx), func(key uint64) {
			if len(h.postings) >= maxValues {
				return
			}
			if at := h.values[key]; at == 0 || h.postings[at].source != int32(h.indexed) {
				h.values[key] = int32(len(h.postings))
				h.postings = append(h.postings, posting{int32(h.indexed), at})
			}
		})
	}
}

// tainted reports whether the conversation has text that is not trusted.
func (h *history) tainted() bool { return len(h.sources) > 0 }

// maxShared is the maximum number of sources that are searched for a record with a value.
const maxShared = 8

// named reports whether a record that the request identifies has a field whose text is value.
func (h *history) named(ctx *middleware.Context, q *identifier, value string) bool {
	h.index(ctx)
	value = normal(value)
	at := h.values[hash(value)]
	for n := 0; at != 0 && n < maxShared; at, n = h.postings[at].next, n+1 {
		all := recordsOf(h.sources[h.postings[at].source].text(ctx))
		for _, r := range all {
			for _, f := range r.fields {
				if normal(f.text) == value && q.left > 0 && (q.names(r, f, all) || q.superlative(r, all)) {
					return true
				}
			}
		}
	}
	return false
}

// maxSearched is the number of sources that are searched for the origin of a value.
const maxSearched = 256

// find returns the latest of the last maxSearched sources that contains a value, or nil if none
// does.
func (h *history) find(ctx *middleware.Context, value string) *source {
	value = normal(value)
	for i := len(h.sources) - 1; i >= max(0, len(h.sources)-maxSearched); i-- {
		if contains(strings.ToLower(h.sources[i].text(ctx)), value) {
			return &h.sources[i]
		}
	}
	return nil
}

// contains reports whether text contains value other than within a longer word.
func contains(text, value string) bool {
	inWord := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for from := 0; value != ""; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(value)
		if (begin == 0 || !inWord(text[begin-1]) || !inWord(value[0])) &&
			(end == len(text) || !inWord(text[end]) || !inWord(value[len(value)-1])) {
			return true
		}
		from = begin + 1
	}
	return false
}

// mentioned reports whether a record that the request identifies has a field whose text contains
// value, such as a message with a link.
func (h *history) mentioned(ctx *middleware.Context, q *identifier, value string) bool {
	value = normal(value)
	for i := len(h.sources) - 1; i >= max(0, len(h.sources)-maxSearched); i-- {
		s := &h.sources[i]
		if !s.hasRecords() {
			continue
		}
		text := s.text(ctx)
		if !contains(strings.ToLower(text), value) {
			continue
		}
		for _, r := range recordsOf(text) {
			for _, f := range r.fields {
				if contains(strings.ToLower(f.text), value) && q.names(r, f, nil) {
					return true
				}
			}
		}
	}
	return false
}

// A refusal records why the module asked a person about a call. It takes effect if the person denies
// the call.
type refusal struct {
	Rule   string `json:"rule"`
	Source string `json:"source,omitempty"` // ID of the message that has the value
}

// refusals are the questions that a person answered with no.
type refusals struct {
	// unasked is true if a person, since the user's last message, denied a call that the request does
	// not ask for.
	unasked bool
	sources map[string]bool // messages whose values were refused
	derived bool            // a value without a source was refused
}

var asked = middleware.Local[map[string]refusal]("asked")

// note records the denial of the call with the given ID, if the module asked a person about the call.
func (r *refusals) note(ctx *middleware.Context, call string) error {
	questions, _, err := asked.Get(ctx)
	q, ok := questions[call]
	if err != nil || !ok {
		return err
	}
	switch {
	case q.Rule == ruleUnasked:
		r.unasked = true
	case q.Source == "":
		r.derived = true
	default:
		if r.sources == nil {
			r.sources = map[string]bool{}
		}
		r.sources[q.Source] = true
	}
	return nil
}

// cover reports whether a person has already refused a call for the same reason as f.
func (r *refusals) cover(f *finding) bool {
	switch {
	case f.rule == ruleUnasked:
		return r.unasked
	case f.source == nil:
		return r.derived
	default:
		return r.sources[f.source.id]
	}
}
