package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Limits of the values that have placeholders, per run. Further values are hidden permanently.
const (
	maxPlaceholders = 999
	maxValue        = 4 << 10   // bytes of one value
	maxValues       = 256 << 10 // bytes of all values
)

// defaultSinks returns patterns for the names of tools that send data out, or that can run a program
// that does. They match names in lower case.
func defaultSinks() []string {
	return []string{
		"*send*", "*mail*", "*message*", "*notify*", "*post*", "*publish*", "*share*", "*comment*", "*issue*", "*push*",
		"*upload*", "*http*", "*fetch*", "*web*", "*curl*", "*request*", "*url*", "*browse*", "*navigate*",
		"*bash*", "*shell*", "*exec*", "*terminal*", "*command*", "*stdin*", "*eval*", "*script*", "*python*", "*ssh*",
	}
}

// isSink reports whether the tool with the given name may send its arguments out. It returns true
// if the name is empty.
func (r *redact) isSink(name string) bool {
	return name == "" || names.Match(r.sinks, strings.ToLower(name))
}

// A secret is a value that has a placeholder.
type secret struct {
	Value string `json:"value"`
	User  bool   `json:"user,omitempty"` // the user wrote it
}

// secrets holds the values of placeholders by the label of their kind, in the order of their numbers.
var secrets = middleware.Local[map[string][]secret]("placeholders")

// A book holds the run's placeholders for the duration of a hook.
type book struct {
	ctx      *middleware.Context
	loaded   bool
	version  int64
	values   map[string][]secret
	numbers  map[string]number // placeholders by value
	seen     *seen
	bytes    int
	changed  bool
	fromUser bool // the user wrote the text that is being redacted
	kept     int  // placeholders that were not restored because of a sink
	err      error
}

// A number identifies a placeholder.
type number struct {
	label string
	n     int
}

func (n number) String() string { return "[" + n.label + "_" + strconv.Itoa(n.n) + "]" }

// load reads the values from the host, once.
func (b *book) load() {
	if b.loaded || b.ctx == nil {
		return
	}
	b.loaded = true
	b.values, b.version, b.err = secrets.Load(b.ctx)
	if b.values == nil {
		b.values = map[string][]secret{}
	}
}

// index loads the values, and sets b.numbers and b.seen.
func (b *book) index() {
	b.load()
	b.numbers, b.seen = map[string]number{}, &seen{byStart: map[string][]string{}}
	for label, list := range b.values {
		for i, s := range list {
			b.add(s.Value, number{label, i + 1})
		}
	}
}

func (b *book) add(value string, at number) {
	b.numbers[value] = at
	b.bytes += len(value)
	b.seen.add(value)
}

// save stores the values if they have changed. It returns false if another hook has stored values
// since load. Those values may have the same placeholders as the unsaved ones.
func (b *book) save() (bool, error) {
	if b.err != nil || !b.changed {
		return b.err == nil, b.err
	}
	return secrets.CompareAndSet(b.ctx, b.values, b.version)
}

// placeholder returns the placeholder of value, which is the same wherever the value occurs. Each
// spelling of a value has a placeholder of its own, so that it is restored exactly. A value beyond
// the limits gets a permanent replacement.
func (b *book) placeholder(label, value string) string {
	at, ok := b.numbers[value]
	if !ok {
		if len(b.numbers) >= maxPlaceholders || len(value) > maxValue || b.bytes+len(value) > maxValues {
			return "[REDACTED_" + label + "]"
		}
		b.values[label] = append(b.values[label], secret{Value: value})
		at = number{label, len(b.values[label])}
		b.add(value, at)
		b.changed = true
	}
	if s := &b.values[at.label][at.n-1]; b.fromUser && !s.User {
		s.User, b.changed = true, true
	}
	return at.String()
}

// value returns the value of a placeholder. It returns false if the placeholder must stay in the
// text: if it is unknown, or if sink is set and the user did not write the value.
func (b *book) value(placeholder string, sink bool) (string, bool) {
	label, digits, _ := cutLast(placeholder[1 : len(placeholder)-1])
	n, err := strconv.Atoi(digits)
	if b.load(); err != nil || n < 1 || n > len(b.values[label]) || strconv.Itoa(n) != digits {
		return "", false
	}
	s := b.values[label][n-1]
	if sink && !s.User {
		b.kept++
		return "", false
	}
	return s.Value, true
}

// verbatim returns a kind for text that needs placeholders although no detector finds data in it.
// Such text is a value that has a placeholder, for example within a longer number, or a lookalike of
// a placeholder. A lookalike gets a placeholder of its own, so that it is restored exactly. If
// ofModel is set, lookalikes are excluded, because in the model's text they are usually placeholders
// that were not restored.
func (r *redact) verbatim(ofModel bool) *kind {
	lookalikes := tokens{r.reversed, "[]"}
	d := verbatim{&r.book, lookalikes}
	if ofModel {
		d.lookalikes.labels = nil
	}
	return &kind{detector: d, exact: true, replace: func(match string) string {
		label := r.reversed[0]
		if at, ok := r.book.numbers[match]; ok {
			label = at.label
		} else if end, _ := lookalikes.at(match, 0); end == len(match) {
			label, _, _ = cutLast(match[1:])
		}
		return r.book.placeholder(label, match)
	}}
}

// A verbatim is a detector of the values of a book and of lookalikes of placeholders. It is for
// complete text only.
type verbatim struct {
	book       *book
	lookalikes tokens
}

// open implements [detector]. Nothing can follow complete text.
func (v verbatim) open(text string, _ int) int { return len(text) }

// mayFind implements [detector].
func (v verbatim) mayFind(s *survey) bool { return len(s.numbers) > 0 || len(v.book.seen.byStart) > 0 }

// find implements [detector].
func (v verbatim) find(view *view) []span {
	known, bracket := v.book.seen, v.lookalikes.brackets[0]
	if len(known.byStart) == 0 {
		return v.lookalikes.find(view)
	}
	text := view.text
	var out []span
	for i := view.from; i < len(text); i++ {
		end := 0
		switch {
		case known.mayBegin(text, i):
			end = known.at(text, i)
		case text[i] != bracket:
			continue
		}
		if end == 0 && text[i] == bracket {
			end, _ = v.lookalikes.at(text, i)
		}
		if end > 0 {
			out = append(out, span{from: i, to: end})
			i = end - 1
		}
	}
	return out
}

// Limits of the search for values that have placeholders. Values of fewer than minSeen bytes occur by
// chance, and more than maxAlike values with the same first bytes would make the search slow.
const (
	minSeen  = 5
	maxAlike = 16
)

// A seen is an index of values that finds their occurrences in text.
type seen struct {
	pairs   [1 << 16 / 64]uint64 // a set of the first two bytes of the values
	byStart map[string][]string  // values by their first minSeen bytes, longer ones first
}

func (s *seen) add(value string) {
	if len(value) < minSeen {
		return
	}
	list := s.byStart[value[:minSeen]]
	if len(list) == maxAlike {
		return
	}
	i := slices.IndexFunc(list, func(v string) bool { return len(v) < len(value) })
	if i < 0 {
		i = len(list)
	}
	s.byStart[value[:minSeen]] = slices.Insert(list, i, value)
	pair := uint(value[0])<<8 | uint(value[1])
	s.pairs[pair/64] |= 1 << (pair % 64)
}

// mayBegin reports whether a value may begin at index i of text. It is fast. A false positive is
// rare.
func (s *seen) mayBegin(text string, i int) bool {
	if len(text)-i < minSeen {
		return false
	}
	pair := uint(text[i])<<8 | uint(text[i+1])
	return s.pairs[pair/64]&(1<<(pair%64)) != 0
}

// at returns the end of the longest value that begins at index i of text, or 0 if none does. It is
// called only if mayBegin returns true.
func (s *seen) at(text string, i int) int {
	for _, v := range s.byStart[text[i:i+minSeen]] {
		if strings.HasPrefix(text[i:], v) {
			return i + len(v)
		}
	}
	return 0
}

// A restoration is the state of replacing placeholders with their values in one text of the model,
// which arrives in pieces.
type restoration struct {
	Tool string `json:"tool,omitempty"` // the name of the called tool, for its arguments
	JSON bool   `json:"json,omitempty"` // whether the text is JSON: the arguments of a tool call
	Text string `json:"text,omitempty"` // the end of the text so far, which may be the beginning of a placeholder

	Place place `json:"place,omitzero"` // the position in the JSON, if JSON is set
	Link  link  `json:"link,omitzero"`  // the position in the text otherwise
}

// restored returns piece, the next piece of the text of b, with its placeholders replaced by their
// values. If piece ends with a possible beginning of a placeholder, and last is false, restored holds
// this part back and returns it with the next piece.
func (r *redact) restored(b *restoration, piece string, last bool) string {
	text := b.Text + piece
	b.Text = ""
	var out strings.Builder
	for i := strings.IndexByte(text, '['); i >= 0; i = strings.IndexByte(text, '[') {
		b.put(&out, text[:i], text[:i])
		text = text[i:]
		end, open := tokens{r.reversed, "[]"}.at(text, 0)
		if open && !last {
			b.Text = text
			return out.String()
		}
		now := text[:max(end, 1)]
		if end > 0 {
			now = r.value(b, now)
		}
		b.put(&out, text[:max(end, 1)], now)
		text = text[max(end, 1):]
	}
	b.put(&out, text, text)
	return out.String()
}

// value returns the text that replaces a placeholder at the current position of b: its value, or
// the placeholder itself. An address in a link is a sink.
func (r *redact) value(b *restoration, placeholder string) string {
	sink := b.Link.In != 0
	if b.JSON {
		sink = r.isSink(b.Tool)
	}
	if b.JSON && !b.Place.Inside {
		return placeholder
	}
	value, ok := r.book.value(placeholder, sink)
	switch {
	case !ok:
		return placeholder
	case b.JSON:
		quoted := json.AppendString(nil, value)
		return string(quoted[1 : len(quoted)-1])
	default:
		return value
	}
}

// put writes now to out. now replaces was, a part of the text.
func (b *restoration) put(out *strings.Builder, was, now string) {
	out.WriteString(now)
	if b.JSON {
		b.Place.pass(was)
	} else {
		b.Link.pass(now)
	}
}

// unescaped returns the text that is written as raw within a string of JSON.
func unescaped(raw string) string {
	var text string
	if json.Unmarshal([]byte(`"`+raw+`"`), &text) != nil {
		return raw
	}
	return text
}

// ofUser reports whether the user wrote a message. Results of tools and texts of modules that are passed to
// the model in the user's name do not count.
func ofUser(m *abi.Message) bool {
	return m.Role == abi.RoleUser && (m.Origin == "" || m.Origin == abi.OriginUser)
}

// report emits an event with the number of placeholders that were kept from sinks.
func (b *book) report(ctx *middleware.Context) error {
	if b.err != nil || b.kept == 0 {
		return b.err
	}
	return ctx.Emit("kept_from_sinks", struct {
		Placeholders int `json:"placeholders"`
	}{b.kept})
}
