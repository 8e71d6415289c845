package main

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A record is an object in a tool's result, with its fields that are not objects. parent is the
// record that contains it.
type record struct {
	parent *record
	fields []field
}

// A field is a value in a record. The items of a list are fields with the list's key.
type field struct{ key, text string }

// maxRecords bounds the records that are read from one result.
const maxRecords = 4096

// recordsOf returns the records of a result that is a JSON object or list. It returns nil for any
// other result, because text that others wrote could contain anything.
func recordsOf(text string) []*record {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil
	}
	b := []byte(text)
	if json.Valid(b) != nil {
		return nil
	}
	var out []*record
	readRecords(json.NewReader(b), "", &record{}, &out)
	return out
}

func readRecords(r *json.Reader, key string, in *record, out *[]*record) {
	switch r.Kind() {
	case '{':
		if len(*out) == maxRecords {
			r.Skip()
			return
		}
		object := &record{parent: in}
		*out = append(*out, object)
		for r.Key() {
			name := r.Name()
			if !isThing(name) || len(*out) == maxRecords {
				readRecords(r, name, object, out)
				continue
			}
			entry := &record{parent: object, fields: []field{{"", name}}}
			*out = append(*out, entry)
			readRecords(r, name, entry, out)
		}
	case '[':
		for r.Next() {
			readRecords(r, key, in, out)
		}
	case '"':
		in.fields = append(in.fields, field{key, r.Text()})
	case '0':
		in.fields = append(in.fields, field{key, string(r.Raw())})
	default:
		r.Skip()
	}
}

// isThing reports whether a key names a thing, as in a map from people to their addresses, rather
// than a field.
func isThing(key string) bool {
	first, _ := utf8.DecodeRuneInString(key)
	return strings.Contains(key, " ") || unicode.IsUpper(first)
}

// maxValue is the maximum length of a field that counts as a value. A longer one is prose.
const maxValue = 120

// normal returns v in lower case and without surrounding space, the form in which values are
// compared.
func normal(v string) string { return strings.ToLower(strings.TrimSpace(v)) }

// names reports whether the request identifies r, or a record that contains r, by something other
// than the field of: by the text of a field with another key or, if of holds an e-mail address, by
// a name in the address. Items of one list have the same key, so they do not identify each other.
// all holds the records of the result.
func (q *request) names(r *record, of field, all []*record) bool {
	value := normal(of.text)
	for in := r; in != nil; in = in.parent {
		for _, f := range in.fields {
			if (in != r || f.key != of.key) && normal(f.text) != value && q.handle(f.text) && !in.shares(f, all) {
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

// shares reports whether r is in a list of several records that all have the field f, such as the
// channel of a list of messages. Such a field does not identify a record.
func (r *record) shares(f field, all []*record) bool {
	others := 0
	for _, o := range all {
		if o == r || o.parent != r.parent {
			continue
		}
		others++
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

// maxPartly is the maximum number of words of a field that the request may name by two of them.
const maxPartly = 8

// partly reports whether the request has two neighboring words of words, the words of a short
// field, as in "grocery list" for "Grocery list of today". One of them must say more than an action
// or a kind of thing.
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
