package main

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A role is the meaning of an argument for the decision about a call. If two roles are possible, the
// larger one applies.
type role uint8

const (
	content role = iota // what is sent or written
	title               // the name of what is created
	detail              // a detail of an account, such as the name or the street of its holder
	target              // a recipient, an account or an object
	address             // a URL
)

// A sink describes a tool to which untrusted values could be passed: what the tool does, and the
// roles of its arguments.
type sink struct {
	tool    string
	words   []string // words of the tool's name
	effect  effect   // what the tool does; 0 if unknown
	topics  topic
	roles   map[string]role // roles by the names of arguments
	other   role            // role of an argument that the declaration does not have
	takes   string          // word of the tool's name that means that the tool changes what it reads, or ""
	declare declaration     // the declaration from which the sink was derived
}

// harmless reports whether every call is allowed: the tool only reads, and not from an address.
func (s *sink) harmless() bool {
	return s.effect == reads && !s.fetches()
}

// fetches reports whether the tool reads from an address that an argument names.
func (s *sink) fetches() bool {
	for _, r := range s.roles {
		if r == address {
			return true
		}
	}
	return false
}

// sinks caches sinks by the names of their tools.
type sinks map[string]*sink

// maxSinks is the number of sinks at which the cache is cleared.
const maxSinks = 1024

// sinkOf returns the sink of the tool t with the given name. It derives the sink from the declaration
// of the tool and from the configuration.
func (p *policy) sinkOf(t *abi.Tool, name string) *sink {
	if s := p.cache[name]; s != nil && s.declare.of(t) {
		return s
	}
	s := derive(name, t)
	if r := p.ruleFor(name); r != nil {
		s.apply(r)
	}
	if p.cache == nil || len(p.cache) >= maxSinks {
		p.cache = sinks{}
	}
	p.cache[name] = s
	return s
}

// A declaration holds the parts of a tool's declaration from which a sink is derived.
type declaration struct {
	parameters, description string
	readOnly, destructive   bool
}

// of reports whether d is the declaration of t.
func (d *declaration) of(t *abi.Tool) bool {
	return d.parameters == string(t.Parameters) && d.description == t.Description &&
		d.readOnly == t.ReadOnly && d.destructive == t.Destructive
}

// derive returns the sink of a tool without the configuration, from the tool's name and declaration.
func derive(name string, t *abi.Tool) *sink {
	s := &sink{
		tool:    name,
		words:   nameWords(name),
		roles:   map[string]role{},
		declare: declaration{string(t.Parameters), t.Description, t.ReadOnly, t.Destructive},
	}
	for _, w := range s.words {
		s.topics |= topics[w]
		v, ok := verbs[w]
		if ok && (s.effect == 0 || s.effect == reads && v.effect&reads == 0 && !v.noun) {
			s.effect = v.effect
		}
	}
	if name == transferTool && t.Idempotent {
		s.effect = reads
		return s
	}
	if s.effect == 0 {
		if first := split(strings.ToLower(t.Description)); len(first) > 0 {
			s.effect = verbs[infinitive(first[0])].effect
		}
	}
	switch {
	case s.effect&^reads != 0:
		s.effect &^= reads
	case t.Destructive:
		s.effect = deletes
	case s.effect == 0 && t.ReadOnly:
		s.effect = reads
	}
	if i := slices.IndexFunc(s.words, func(w string) bool { return taking[w] }); i >= 0 {
		s.takes = s.words[i]
		s.effect = s.effect&^reads | changes
	}
	s.effect = byObject(s.effect, s.topics)
	s.other = s.roleOf("", "", "")
	s.readParameters(t.Parameters)
	return s
}

// transferTool is the name of the host's tool that transfers the conversation to another agent. It
// changes nothing, and the other agent has gates of its own.
const transferTool = "transfer_to_agent"

// taking holds words in the names of tools that change what they read. A list of unread mails, for
// example, marks the mails as read.
var taking = wordSet("unread pop dequeue consume acknowledge")

// apply sets the effect and the roles in s as specified by r, an entry of the configuration.
func (s *sink) apply(r *toolRule) {
	if r.Effect != "" {
		s.effect = effectNamed(r.Effect)
	}
	if r.Guard == nil {
		return
	}
	for argument := range s.roles {
		s.roles[argument] = content
		if names.Match(r.Guard, argument) {
			s.roles[argument] = target
		}
	}
	s.other = content
	for _, argument := range r.Guard {
		if !strings.Contains(argument, "*") {
			s.roles[argument] = target
		} else if argument == "*" {
			s.other = target
		}
	}
}

// nameWords returns the words of a name in snake_case, kebab-case or camelCase, in lower case.
func nameWords(name string) []string {
	var out []string
	for _, part := range split(name) {
		from := 0
		for i, c := range part {
			if i > from && unicode.IsUpper(c) && !unicode.IsUpper(rune(part[i-1])) {
				out = append(out, strings.ToLower(part[from:i]))
				from = i
			}
		}
		out = append(out, strings.ToLower(part[from:]))
	}
	return out
}

// infinitive returns the base form of w if w is a form of a known verb, such as "sends" or
// "searches", and w otherwise.
func infinitive(w string) string {
	for _, end := range []string{"", "s", "es"} {
		if base := strings.TrimSuffix(w, end); verbs[base].effect != 0 {
			return base
		}
	}
	return w
}

// readParameters derives the roles of the arguments from their schema.
func (s *sink) readParameters(schema []byte) {
	if json.Valid(schema) != nil {
		return
	}
	r := json.NewReader(schema)
	if r.Kind() != '{' {
		return
	}
	for r.Key() {
		if r.Name() != "properties" || r.Kind() != '{' {
			r.Skip()
			continue
		}
		for r.Key() {
			name := r.Name()
			if len(s.roles) < maxSinks {
				s.roles[name] = s.property(name, r)
			} else {
				r.Skip()
			}
		}
	}
}

// property reads the schema of one argument and returns the argument's role.
func (s *sink) property(name string, r *json.Reader) role {
	if r.Kind() != '{' {
		r.Skip()
		return s.roleOf(name, "", "")
	}
	var kind, description, format string
	choice := false
	for r.Key() {
		switch key := r.Name(); {
		case key == "enum" || key == "const":
			choice = true
			r.Skip()
		case r.Kind() != '"':
			r.Skip()
		case key == "type":
			kind = r.Text()
		case key == "description":
			description = r.Text()
		case key == "format":
			format = r.Text()
		default:
			r.Skip()
		}
	}
	if choice || kind == "boolean" {
		return content
	}
	return s.roleOf(name, description, format)
}

var (
	addressWords = wordSet("url urls uri link links href website webpage host domain endpoint webhook")
	targetWords  = wordSet("to cc bcc recipient recipients receiver payee beneficiary address addresses email emails " +
		"participant participants attendee attendees invitee invitees guest guests user users username usernames member " +
		"members contact contacts phone mobile iban account accounts bic swift wallet channel channels group audience " +
		"owner assignee customer client person people destination target server bucket repo repository handle " +
		"id ids key file files filename path folder directory attachment attachments hotel restaurant company " +
		"airline flight " +
		"password passwd secret pin scope")
	detailWords = wordSet(
		"name first last street city town zip postcode postal state province country birthday language " +
			"timezone",
	)
	titleWords   = wordSet("title name subject summary label topic")
	contentWords = wordSet("body content contents text message description note notes comment query amount date day " +
		"time start end location recurring quantity number limit permission role reason format language type status")
	describing = []string{
		"recipient", "e-mail address", "email address", "email of", "iban", "account number", "phone number",
		"password", "name of the user",
	}
)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// roleOf returns the role of an argument, derived from the format, from the name or, if the name has
// no known word, from the description.
func (s *sink) roleOf(name, description, format string) role {
	words := nameWords(name)
	is := func(set map[string]bool) bool {
		return slices.ContainsFunc(words, func(w string) bool { return set[w] })
	}
	switch {
	case format == "uri" || format == "url" || is(addressWords):
		return address
	case s.effect == reads:
		return content
	case is(targetWords):
		return target
	case s.effect&manages != 0 && is(detailWords):
		return detail
	case s.effect&manages != 0:
		return target
	case is(titleWords):
		return title
	case is(contentWords):
		return content
	}
	description = strings.ToLower(description)
	if slices.ContainsFunc(describing, func(d string) bool { return strings.Contains(description, d) }) {
		return target
	}
	if s.effect == 0 || s.effect&(deletes|runs) != 0 {
		return target
	}
	return content
}
