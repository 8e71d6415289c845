package main

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A record is an object in a tool's result. fields holds its values other than objects, and parent is
// the record that contains it.
type record struct {
	parent *record
	fields []field
}

// A field is a value in a record. The items of a list are fields with the list's key.
type field struct{ key, text string }

// Limits of the records that are read from one result. The module does not find values beyond them,
// and therefore asks a person about such values.
const (
	maxResult  = 256 << 10 // bytes
	maxRecords = 4096
	maxFields  = 16384
	maxDepth   = 32
)

// recordsOf returns the records of a result that is a JSON object or list. It returns nil for any
// other result, because its text may come from an attacker.
func recordsOf(text string) []*record {
	b := structured(text)
	if b == nil {
		return nil
	}
	p := parser{Reader: json.NewReader(b)}
	p.value("", &record{}, 0)
	return p.records
}

// structured returns text if it is a JSON object or list, and nil otherwise.
func structured(text string) []byte {
	text = strings.TrimSpace(text)
	if !isStructured(text) {
		return nil
	}
	if b := []byte(text); json.Valid(b) == nil {
		return b
	}
	return nil
}

// isStructured reports whether text can be a JSON object or list that is not too long.
func isStructured(text string) bool {
	return text != "" && (text[0] == '{' || text[0] == '[') && len(text) <= maxResult
}

// A parser reads records.
type parser struct {
	*json.Reader
	records []*record
	fields  int
}

// value reads the value of the field key of the record in.
func (p *parser) value(key string, in *record, depth int) {
	switch kind := p.Kind(); {
	case depth == maxDepth || p.fields == maxFields:
		p.Skip()
	case kind == '{':
		p.object(in, depth)
	case kind == '[':
		for p.Next() {
			p.value(key, in, depth+1)
		}
	case kind == '"':
		p.add(in, field{key, p.Text()})
	case kind == '0':
		p.add(in, field{key, string(p.Raw())})
	default:
		p.Skip()
	}
}

// object reads an object in the record in.
func (p *parser) object(in *record, depth int) {
	if len(p.records) >= maxRecords {
		p.Skip()
		return
	}
	object := &record{parent: in}
	p.records = append(p.records, object)
	for p.Key() {
		name := p.Name()
		if !isThing(name) || len(p.records) >= maxRecords || p.fields == maxFields {
			p.value(name, object, depth+1)
			continue
		}
		entry := &record{parent: object}
		p.add(entry, field{"", name})
		p.records = append(p.records, entry)
		p.value(name, entry, depth+1)
	}
}

func (p *parser) add(in *record, f field) {
	in.fields = append(in.fields, f)
	p.fields++
}

// eachToken calls do with the hash of each string and number in a result that may be JSON, in its
// [normal] form. It is fast rather than strict: [recordsOf] decides what a record is.
func eachToken(text string, do func(hash uint64)) {
	if text = strings.TrimSpace(text); !isStructured(text) {
		return
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		end := i
		switch {
		case c == '"':
			end = endOfString(text, i)
			switch inner := text[i+1 : end]; {
			case !strings.Contains(inner, `\`):
				if len(inner) <= maxValue {
					do(hash(normal(inner)))
				}
			case len(inner) <= 6*maxValue && json.Valid([]byte(text[i:min(end+1, len(text))])) == nil:
				do(hash(normal(json.NewReader([]byte(text[i : end+1])).Text())))
			}
		case c == '-' || c >= '0' && c <= '9':
			for end+1 < len(text) && strings.IndexByte(",]} \t\r\n", text[end+1]) < 0 {
				end++
			}
			do(hash(text[i : end+1]))
		}
		i = end
	}
}

// endOfString returns the index of the quote that ends the JSON string that begins at from, or the
// length of text if there is none.
func endOfString(text string, from int) int {
	for i := from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// isThing reports whether a key is the name of a thing, as in a map from people to their addresses.
// Other keys are names of fields.
func isThing(key string) bool {
	first, _ := utf8.DecodeRuneInString(key)
	return strings.Contains(key, " ") || unicode.IsUpper(first)
}

// maxValue is the maximum number of bytes of a field that counts as a value. A longer field is prose.
const maxValue = 120

// normal returns v in lower case and without surrounding space, the form in which values are
// compared.
func normal(v string) string { return strings.ToLower(strings.TrimSpace(v)) }

// maxCompared is the maximum number of fields that the module compares with the request to judge
// one call.
const maxCompared = 50_000

// An identifier finds the records that the request identifies. left is the number of comparisons of
// fields that it may still make. It finds no record if left is 0.
type identifier struct {
	*request
	left int
}

// spend consumes n comparisons, and reports whether any are left.
func (q *identifier) spend(n int) bool {
	q.left = max(q.left-n, 0)
	return q.left > 0
}

// names reports whether the request identifies r, or a record that contains r, by something other
// than the field of. It can identify a record by a field with another key or, if of holds an e-mail
// address, by a name in the address. Fields of r with the key of of do not count, because the items
// of a list have the same key. all holds the records of the result.
func (q *identifier) names(r *record, of field, all []*record) bool {
	value := normal(of.text)
	for in := r; in != nil; in = in.parent {
		if !q.spend(len(in.fields) + 1) {
			return false
		}
		for _, f := range in.fields {
			if (in != r || f.key != of.key) && normal(f.text) != value && q.handle(f.text) && !q.share(in, f, all) {
				return true
			}
		}
	}
	if local, _, ok := strings.Cut(value, "@"); ok {
		for _, w := range split(local) {
			if len(w) > 2 && q.said.names[w] {
				return true
			}
		}
	}
	return false
}

// share reports whether r is in a list of several records that all have the field f, such as the
// channel of a list of messages. Such a field does not identify a record. share returns true if no
// comparisons are left.
func (q *identifier) share(r *record, f field, all []*record) bool {
	others := 0
	for _, o := range all {
		if o == r || o.parent != r.parent {
			continue
		}
		if others++; !q.spend(len(o.fields) + 1) {
			return true
		}
		if !slices.ContainsFunc(o.fields, func(g field) bool { return g.key == f.key && normal(g.text) == normal(f.text) }) {
			return false
		}
	}
	return others > 0
}

// general holds words that occur in many records, and so identify none.
var general = wordSet("true false none null read unread confirmed pending active open closed done sent inbox user " +
	"admin low medium high file email event message other default public private with from that this have will your " +
	"they them what when where which about into also only just more most please make sure need want like than then " +
	"after before")

// handle reports whether the request contains text, the value of a field, and text is specific
// enough to identify a record.
func (q *request) handle(text string) bool {
	if len(text) > maxValue || len(text) < 3 {
		return false
	}
	v := normal(text)
	if isWhole(v) && q.said.whole[v] {
		return true
	}
	if n := asAmount(v); n != "" {
		return q.said.amounts[n]
	}
	if dot := strings.LastIndexByte(v, '.'); dot > 0 && topics[v[dot+1:]]&files != 0 {
		v = v[:dot]
	} else if isWhole(v) {
		return false
	}
	words := split(v)
	if q.partly(words) {
		return true
	}
	long := slices.ContainsFunc(words, func(w string) bool { return len(w) > 3 && !digits(w) && !general[w] })
	return plain(v) && (long || len(words) > 1 && !digits(strings.Join(words, ""))) && q.said.phrase(words) ||
		len(words) == 1 && len(v) > 2 && q.said.names[v] && !general[v]
}

// maxPartly is the maximum number of words of a field that two of its words can identify.
const maxPartly = 8

// partly reports whether the request contains two neighboring words of a short field, as in "grocery
// list" for "Grocery list of today". words holds the words of the field. One of the two must be more
// specific than the verbs and topics that the module knows.
func (q *request) partly(words []string) bool {
	if len(words) > maxPartly {
		return false
	}
	special := func(w string) bool { return verbs[w].effect == 0 && topics[w] == 0 && !general[w] && !digits(w) }
	for i := 1; i < len(words); i++ {
		a, b := words[i-1], words[i]
		if len(a) > 3 && len(b) > 3 && (special(a) || special(b)) && q.said.phrase(words[i-1:i+1]) {
			return true
		}
	}
	return false
}
