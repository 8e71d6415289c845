package composition

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// A translator is a middleware that translates events for a client. Each entry of a composition
// gets one, whose action depends only on the entry's position and the number of replies.
type translator struct {
	name string
	ring int
	does int
}

// The actions of translators on custom events. A translator does not change other events.
const (
	marks        = iota // adds its name to the text
	withholds           // drops an entry's events about a reply
	breaks              // faults at events that contain "@"
	marksEncoded        // adds its name to the encoded event
	translatings
)

// translators returns the translators for the entries of a composition, in the order of the
// entries.
func (c *Composition) translators() []translator {
	out := make([]translator, len(c.Entries))
	for i, e := range c.Entries {
		out[i] = translator{"t" + e.Name, e.Ring, (i + len(c.Replies)) % translatings}
	}
	return out
}

// translated is a custom event, or its encoded form.
type translated struct {
	Type string `json:"type"`
	Name string `json:"name"`
	Data string `json:"data"`
}

// entry returns the chain entry that runs the translator.
func (t translator) entry() hook.Entry {
	play := func(encoded bool) func(context.Context, *hook.Call, *abi.TranslateInput) (*abi.TranslateAnswer, error) {
		return func(_ context.Context, _ *hook.Call, in *abi.TranslateInput) (*abi.TranslateAnswer, error) {
			var e map[string]any
			if err := json.Unmarshal(in.Event, &e); err != nil {
				return nil, err
			}
			text, _ := e["data"].(string)
			now, drop, fault := t.translated(translated{fmt.Sprint(e["type"]), fmt.Sprint(e["name"]), text}, encoded)
			if fault {
				panic("the translator breaks")
			}
			if now == text {
				return &abi.TranslateAnswer{Drop: drop}, nil
			}
			e["data"] = now
			b, err := json.Marshal(e)
			return &abi.TranslateAnswer{Event: b}, err
		}
	}
	return hook.Entry{
		Name:       t.name,
		Ring:       hook.Ring(t.ring),
		OnFault:    hook.Skip,
		Middleware: &inproc.Middleware{TranslateBefore: play(false), TranslateAfter: play(true)},
	}
}

// translated returns the translator's effect on an event: the new text, or whether it drops the
// event or faults. encoded reports whether e is in the client's encoding.
func (t translator) translated(e translated, encoded bool) (text string, drop, fault bool) {
	switch {
	case e.Type != string(abi.EventCustom):
	case t.does == marks && !encoded, t.does == marksEncoded && encoded:
		return e.Data + "~" + t.name, false, false
	case t.does == withholds && !encoded:
		return e.Data, e.Name == "reply", false
	case t.does == breaks && !encoded:
		return e.Data, false, strings.Contains(e.Data, "@")
	}
	return e.Data, false, false
}

// asPlain is an encoder that encodes custom events unchanged and drops all others.
type asPlain struct{}

// Protocol implements [chain.Encoder].
func (asPlain) Protocol() string { return "plain" }

// Encode implements [chain.Encoder].
func (asPlain) Encode(e abi.Event) []chain.Encoded {
	if e.Type != abi.EventCustom {
		return nil
	}
	var text string
	_ = json.Unmarshal(e.Data, &text)
	b, _ := json.Marshal(translated{string(e.Type), e.Name, text})
	return []chain.Encoded{{JSON: b, Fixed: []string{"type"}}}
}

// translation runs a composition with a client and translators, and returns the differences from
// the prediction. The client must receive what the translators make of the events, from the inner
// ring outward. The run itself must not change.
func translation(ctx context.Context, c *Composition) string {
	c = c.quiet()
	c.Peer = nil // the peer's entries would get other translators
	s, err := play(ctx, c, &stage{client: true})
	switch {
	case err != nil:
		return err.Error()
	case s.switchedOff():
		return ""
	}
	var order []translator
	for ring := Inner; ring >= Outer; ring-- {
		order = append(order, slices.DeleteFunc(c.translators(), func(t translator) bool { return t.ring != ring })...)
	}
	var want, got []string
	for _, e := range s.sent {
		if e.Event.Type != abi.EventCustom {
			continue
		}
		for _, b := range e.Encoded {
			var line translated
			if err := json.Unmarshal(b, &line); err != nil {
				return err.Error()
			}
			got = append(got, line.Name+" "+line.Data)
		}
		var text string
		if err := json.Unmarshal(e.Event.Data, &text); err != nil {
			return err.Error()
		}
		if line, sent := through(order, translated{string(e.Event.Type), e.Event.Name, text}); sent {
			want = append(want, line)
		}
	}
	wrong := differs("the client was sent", want, got)
	s.events = slices.DeleteFunc(
		s.events,
		func(e abi.Event) bool { return e.Type == abi.EventFault && strings.HasPrefix(e.Entry, "t") },
	)
	p, account := Predict(c), s.account()
	if s.pauses > 0 {
		p.withoutLive()
		account.withoutLive()
	}
	if !p.Open {
		wrong += differs("events", p.Events, account.Events)
	}
	return wrong
}

// through returns the line that a client receives for event e after all translators, in the given
// order. sent is false if a translator dropped the event.
func through(order []translator, e translated) (line string, sent bool) {
	for _, encoded := range []bool{false, true} {
		for _, t := range order {
			now, drop, _ := t.translated(e, encoded)
			if drop {
				return "", false
			}
			e.Data = now
		}
	}
	return e.Name + " " + e.Data, true
}
