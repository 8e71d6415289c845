package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// Values of finding.rule. The payload of a question to a person contains the value.
const (
	ruleUnasked = "unasked" // the request does not ask for what the tool does
	ruleValue   = "value"   // a value is not the user's
	ruleNothing = "nothing" // no argument of the call is the user's
)

// A finding is the reason why a call is not allowed.
type finding struct {
	rule     string
	argument string
	value    string
	source   *source // message with the value; nil if there is none
	partly   bool    // true if the module has not compared all records
}

// GateTool allows calls that cannot do harm, and calls whose decisive values are the user's. It
// denies other calls or asks a person about them.
func (p *policy) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	s := p.sinkOf(&call.Tool, call.Name)
	if s.harmless() {
		return middleware.Allow(), nil
	}
	if err := p.update(ctx); err != nil {
		return middleware.Decision{}, err
	}
	if !p.history.tainted() {
		return middleware.Allow(), nil
	}
	arguments, err := readArguments(call.Arguments)
	if err != nil {
		return middleware.Deny(middleware.Sprintf("The arguments of %s cannot be read: %v", call.Name, err)), nil
	}
	f, err := p.judge(ctx, &attempt{s, identifier{p.history.request, maxCompared}, call, arguments})
	if err != nil || f == nil {
		return middleware.Allow(), err
	}
	return p.decide(ctx, call, s, f)
}

func readArguments(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	value, err := values.Read([]byte(text))
	if object, ok := value.(map[string]any); ok {
		return object, nil
	}
	if err == nil {
		err = &abi.Error{Code: abi.CodeInvalid, Message: "want a JSON object"}
	}
	return nil, err
}

// An attempt is a call that the module judges.
type attempt struct {
	*sink
	identify  identifier
	call      *middleware.Call
	arguments map[string]any
}

// judge returns the reason why a call is not allowed, or nil if it is.
func (p *policy) judge(ctx *middleware.Context, a *attempt) (*finding, error) {
	h, s, arguments := &p.history, a.sink, a.arguments
	if s.effect != reads && p.Unasked != allow && !h.request.asks(s) {
		needed, err := p.needs(ctx, s, &a.call.Tool)
		if err != nil || !needed {
			return &finding{rule: ruleUnasked}, err
		}
	}
	guarded, ours := false, false
	for _, name := range sorted(arguments) {
		as, ok := s.roles[name]
		if !ok {
			as = max(s.roleOf(name, "", ""), s.other)
		}
		for _, v := range scalars(nil, as, s, arguments[name]) {
			switch {
			case strings.TrimSpace(v.text) == "":
			case v.role >= detail:
				guarded = true
				if f := p.value(ctx, a, name, v); f != nil {
					return f, nil
				}
			case v.role == title && h.owns(v.text):
				ours = true
			}
		}
	}
	if s.effect != reads && !guarded && !ours && hasTitle(s) {
		return &finding{rule: ruleNothing}, nil
	}
	return nil, nil
}

// owns reports whether text, a title, is the user's: the user wrote it, or the request contains two
// neighboring words of it that each have more than three bytes.
func (h *history) owns(text string) bool {
	if h.user.has(text) {
		return true
	}
	words := split(strings.ToLower(text))
	for i := 1; i < len(words); i++ {
		if len(words[i-1]) > 3 && len(words[i]) > 3 && h.request.said.phrase(words[i-1:i+1]) {
			return true
		}
	}
	return false
}

func hasTitle(s *sink) bool {
	for _, r := range s.roles {
		if r == title {
			return true
		}
	}
	return false
}

func sorted(arguments map[string]any) []string {
	var out []string
	for name := range arguments {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// A scalar is a string or a number in an argument, with its role.
type scalar struct {
	role role
	text string
}

// maxScalars bounds the values of one argument.
const maxScalars = 1000

// scalars appends the strings and numbers in v to out, each with its role. as is the role of v.
// Values in an object have the roles of their keys. If v is a target and no key of the object is one,
// all values in it are targets.
func scalars(out []scalar, as role, s *sink, v any) []scalar {
	if len(out) >= maxScalars {
		return append(out[:maxScalars], scalar{target, "too many values"})
	}
	switch v := v.(type) {
	case string:
		return append(out, scalar{as, v})
	case values.Number:
		return append(out, scalar{as, string(v)})
	case []any:
		for _, item := range v {
			out = scalars(out, as, s, item)
		}
	case map[string]any:
		own := slices.ContainsFunc(sorted(v), func(k string) bool { return s.roleOf(k, "", "") >= detail })
		for _, k := range sorted(v) {
			in := s.roleOf(k, "", "")
			if as >= detail && !own {
				in = as
			}
			out = scalars(out, in, s, v[k])
		}
	}
	return out
}

// value returns the reason why the value v may not be used for the argument, or nil if v is allowed.
func (p *policy) value(ctx *middleware.Context, a *attempt, argument string, v scalar) *finding {
	h := &p.history
	if h.said(v.text, v.role) {
		return nil
	}
	if p.Records {
		if h.named(ctx, &a.identify, v.text) || a.effect == reads && h.mentioned(ctx, &a.identify, v.text) {
			return nil
		}
	}
	if p.Documents && h.delegated(ctx, a, v) {
		return nil
	}
	return &finding{ruleValue, argument, v.text, h.find(ctx, v.text), a.identify.left == 0}
}

// minDigits is the minimum number of digits of a number that identifies a thing by itself.
const minDigits = 5

// said reports whether the user wrote v, a value with the role as. A short number counts only after
// a word such as "file" or "id", since "13" may be a day. A URL counts if the user named its host.
func (h *history) said(v string, as role) bool {
	v = strings.TrimSpace(v)
	if digits(v) && len(v) < minDigits {
		return h.user.numbered(v)
	}
	if h.user.has(v) || h.request.said.has(v) {
		return true
	}
	if as == address {
		_, host := asURL(strings.ToLower(v))
		return host != "" && h.user.hosts[host]
	}
	return false
}

// numbered reports whether the text contains the number v after a word for a numbered thing, such as
// "file" or "id".
func (s *speech) numbered(v string) bool {
	return slices.ContainsFunc(s.at[v], func(at int32) bool {
		w := s.words[at-1]
		return w == "id" || w == "number" || w == "no" || w == "nr" || topics[w] != 0
	})
}

// decide asks a person about a call that is not allowed for the reason f. It denies the call if the
// configuration requires that, or if a person has already denied a call for the same reason.
func (p *policy) decide(
	ctx *middleware.Context, call *middleware.Call, s *sink, f *finding,
) (middleware.Decision, error) {
	text := f.explain(s)
	action := p.Values
	if f.rule != ruleValue {
		action = p.Unasked
	}
	if action == deny || p.history.refused.cover(f) {
		return middleware.Deny(text + " Ask the user, and do not try again."), nil
	}
	note := refusal{Rule: f.rule}
	if f.source != nil {
		note.Source = f.source.id
	}
	err := asked.Update(ctx, func(old map[string]refusal) (map[string]refusal, error) {
		if old == nil || len(old) >= maxCalls {
			old = map[string]refusal{}
		}
		old[call.ID] = note
		return old, nil
	})
	payload := map[string]string{"rule": f.rule}
	if f.argument != "" {
		payload["argument"], payload["value"] = f.argument, f.value
	}
	if f.source != nil {
		payload["message"], payload["origin"] = f.source.id, f.source.origin()
	}
	return middleware.Ask(text).With(payload), err
}

// maxShown is the maximum number of bytes of a value in an explanation.
const maxShown = 200

// explain returns a sentence that says which value or call is not the user's, and where it comes
// from.
func (f *finding) explain(s *sink) string {
	does := s.effect.String()
	if does == "" {
		does = "an unknown effect"
	}
	switch f.rule {
	case ruleUnasked:
		return middleware.Sprintf("The request does not ask for %s (%s), and text that is not the user's was read before.",
			s.tool, does)
	case ruleNothing:
		return middleware.Sprintf("No argument of %s (%s) is from the request.", s.tool, does)
	}
	shown := f.value
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	where := "neither in the request nor in a result"
	if f.source != nil {
		where = middleware.Sprintf("not from the request but from %s (message %d)", f.source.origin(), f.source.at+1)
	}
	if f.partly {
		where += "; the results have too many values to compare all with the request"
	}
	return middleware.Sprintf("Argument %q of %s (%s) is %q, which is %s.", f.argument, s.tool, does, shown, where)
}
