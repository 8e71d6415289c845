package main

import "strings"

// A request is what the user asks for: the user's latest message and, if that only confirms what
// was said before, the messages that it confirms.
type request struct {
	id      string // ID of the latest message
	texts   []string
	said    *speech
	effects effect
	topics  topic
}

// confirming is the maximum number of words of a message that only confirms the request before it.
const confirming = 6

// follow returns the request after the user's next message, with the given ID and text. r is the
// request before it, or nil.
func (r *request) follow(id, text string) *request {
	text = shorten(text, maxRequest)
	now := &request{id: id, said: newSpeech(maxRequest)}
	now.read(text)
	if now.effects == 0 && r != nil && len(split(text)) <= confirming {
		now.texts = append(now.texts, r.texts...)
		now.effects, now.topics = r.effects, now.topics|r.topics
	}
	now.texts = append(now.texts, text)
	for _, t := range now.texts {
		now.said.add(t)
	}
	return now
}

// read adds to r the effects and the topics that text asks for.
func (r *request) read(text string) {
	tokens := clauses(strings.ToLower(text))
	for i, t := range tokens {
		if o, ok := topics[t.word]; ok {
			r.topics |= o
		}
		if asAmount(t.word) != "" {
			r.topics |= money
		}
		v, ok := verbs[t.word]
		if t.word == "let" && knows(tokens[i+1:]) {
			v, ok = verb{effect: sends}, true
		}
		if !ok || i > 0 && negation[tokens[i-1].word] || v.noun && !t.begins || t.forMe(tokens, i) {
			continue
		}
		r.effects |= v.effect &^ reads
		r.topics |= implied(v.effect)
	}
	r.effects = byObject(r.effects, r.topics)
}

// A token is a word of a request. begins is set if a clause can begin with it.
type token struct {
	word   string
	begins bool
}

var negation = map[string]bool{"not": true, "don't": true, "never": true, "without": true, "cannot": true}

// openings are words after which a verb can follow.
var openings = map[string]bool{}

func init() {
	for w := range strings.FieldsSeq("please and then to also can could would will should must you kindly or just now " +
		"finally next after first second third lastly afterwards let's let go i'd") {
		openings[w] = true
	}
}

// clauses returns the words of text, and marks each with which a clause can begin. A number with a
// decimal point, and a name with dots or hyphens, is one word. If the extension of a file name, or
// the part of a name before its first hyphen, is a word of a topic, this word is added after the
// name.
func clauses(text string) []token {
	var out []token
	begins := true
	for part := range strings.FieldsSeq(text) {
		word := strings.TrimFunc(part, isMark)
		opened := strings.HasPrefix(part, "(") || strings.HasPrefix(part, "[")
		if word != "" && !digits(word) {
			out = append(out, token{word, begins || opened})
			begins = openings[word]
		}
		if strings.ContainsAny(part[len(part)-1:], ".,:;!?)") {
			begins = true
		}
		if _, ending, ok := strings.Cut(word, "."); ok && topics[ending] == files {
			out = append(out, token{word: ending})
		}
		if head, _, ok := strings.Cut(word, "-"); ok && topics[head] != 0 {
			out = append(out, token{word: head})
		}
	}
	return out
}

// isMark reports whether a character is a mark around words.
func isMark(c rune) bool {
	switch c {
	case '.', ',', ':', ';', '!', '?', '"', '\'', '`', '(', ')', '[', ']', '{', '}', '*', '“', '”', '‘', '’':
		return true
	}
	return false
}

// forMe reports whether t, the verb with index i in tokens, asks for no effect: because it begins a
// phrase like "tell me", which asks for an answer, or because it is not a verb, as in "email
// address".
func (t token) forMe(tokens []token, i int) bool {
	if i+1 == len(tokens) {
		return false
	}
	next := tokens[i+1].word
	return (next == "me" || next == "us") && verbs[t.word].effect&(sends|shares) != 0 ||
		(next == "sure" && t.word == "make") || next == "address" || next == "addresses"
}

// knows reports whether the words after "let" ask to tell something to somebody other than the
// user, as in "let Ann know".
func knows(after []token) bool {
	for i, t := range after[:min(len(after), confirming)] {
		if t.word == "know" {
			return i > 0 && after[0].word != "me" && after[0].word != "us"
		}
	}
	return false
}

// asks reports whether the request asks for what the tool of s does. If the effect of the tool is
// unknown, the request must contain a word of the tool's name. If s.takes is set, the request must
// contain that word.
func (r *request) asks(s *sink) bool {
	if s.effect == 0 {
		for _, w := range s.words {
			if len(w) > 3 && r.said.phrase([]string{w}) {
				return true
			}
		}
		return false
	}
	if s.takes != "" {
		return r.said.phrase([]string{s.takes})
	}
	return s.effect&r.effects != 0 && (s.topics == 0 || r.topics == 0 || s.topics&r.topics != 0)
}
