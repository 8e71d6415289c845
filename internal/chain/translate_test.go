package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// shout is an encoder that returns two events for each chunk and one for any other event.
type shout struct{}

func (shout) Protocol() string { return "shout" }

func (shout) Encode(e abi.Event) []Encoded {
	encoded := func(kind, text string, keep bool) Encoded {
		b, _ := abijson.Marshal(map[string]any{"type": kind, "id": e.Seq, "text": text})
		return Encoded{JSON: b, Fixed: []string{"type", "id"}, Keep: keep}
	}
	switch e.Type {
	case abi.EventChunk:
		return []Encoded{encoded("begin", "", true), encoded("text", strings.ToUpper(e.Chunk.Text), false)}
	case abi.EventRunFinished:
		return []Encoded{encoded("end", e.Reason, false)}
	default:
		return []Encoded{encoded(string(e.Type), e.Text, false)}
	}
}

// seenBy is an encoder that passes events to a function.
type seenBy func(abi.Event)

func (seenBy) Protocol() string { return "seen" }

func (f seenBy) Encode(e abi.Event) []Encoded {
	f(e)
	return nil
}

// translating returns an entry whose translate_before and translate_after hooks call before and
// after with the decoded event. A nil function means that the entry does not have the hook.
func translating(
	name string,
	ring hook.Ring,
	before, after func(c *hook.Call, event map[string]any) (*abi.TranslateAnswer, error),
) hook.Entry {
	n := &inproc.Middleware{}
	bound := func(
		fn func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error),
	) func(context.Context, *hook.Call, *abi.TranslateInput) (*abi.TranslateAnswer, error) {
		if fn == nil {
			return nil
		}
		return func(_ context.Context, c *hook.Call, in *abi.TranslateInput) (*abi.TranslateAnswer, error) {
			var event map[string]any
			if err := json.Unmarshal(in.Event, &event); err != nil {
				return nil, err
			}
			return fn(c, event)
		}
	}
	n.TranslateBefore, n.TranslateAfter = bound(before), bound(after)
	return hook.Entry{Name: name, Ring: ring, Middleware: n}
}

func answered(event any) (*abi.TranslateAnswer, error) {
	b, err := abijson.Marshal(event)
	return &abi.TranslateAnswer{Event: b}, err
}

func chunkEvent(text string) abi.Event {
	return abi.Event{
		Type:  abi.EventChunk,
		Seq:   7,
		Run:   "run-1",
		Step:  2,
		Chunk: &abi.Chunk{Seq: 3, Kind: abi.ChunkText, Text: text},
	}
}

func openTranslators(t *testing.T, entries ...hook.Entry) *Run {
	t.Helper()
	c, err := New(entries...)
	require.NoError(t, err)
	r, err := c.Open(t.Context(), abi.Run{ID: "run-1"}, &boundaryHost{}, local.New())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func texts(client []json.RawMessage) []string {
	out := make([]string, len(client))
	for i, b := range client {
		out[i] = string(b)
	}
	return out
}

// TestTranslateOrder checks that the operator's translators run last, before and after the encoder.
func TestTranslateOrder(t *testing.T) {
	t.Parallel()
	mark := func(name string, ring hook.Ring) hook.Entry {
		return translating(name, ring,
			func(_ *hook.Call, e map[string]any) (*abi.TranslateAnswer, error) {
				chunk := e["chunk"].(map[string]any)
				chunk["text"] = chunk["text"].(string) + "<" + name
				return answered(e)
			},
			func(_ *hook.Call, e map[string]any) (*abi.TranslateAnswer, error) {
				e["text"] = e["text"].(string) + ">" + name
				return answered(e)
			})
	}
	r := openTranslators(t, mark("o", hook.Outer), mark("t1", hook.Tenant), mark("t2", hook.Tenant), mark("i", hook.Inner))
	client, caused := r.Translate(t.Context(), chunkEvent("hi"), shout{})
	require.Empty(t, caused)
	require.Equal(t, []string{
		`{"id":7,"text":">i>t1>t2>o","type":"begin"}`,
		`{"id":7,"text":"HI<I<T1<T2<O>i>t1>t2>o","type":"text"}`,
	}, texts(client))
}

// TestTranslateIdentity checks that a module cannot change the fields that identify an event.
func TestTranslateIdentity(t *testing.T) {
	t.Parallel()
	r := openTranslators(t, translating("liar", hook.Tenant,
		func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) {
			return answered(map[string]any{"type": "run_finished", "seq": 99, "run": "other", "step": 50, "time_ms": 5,
				"chunk": map[string]any{"seq": 8, "kind": "reasoning", "text": "new"}})
		},
		func(_ *hook.Call, e map[string]any) (*abi.TranslateAnswer, error) {
			return answered(map[string]any{"type": "end", "text": e["text"], "more": 1})
		}))
	client, caused := r.Translate(t.Context(), chunkEvent("hi"), shout{})
	require.Empty(t, caused)
	require.Equal(t, []string{
		`{"id":7,"more":1,"text":"","type":"begin"}`,
		`{"id":7,"more":1,"text":"NEW","type":"text"}`,
	}, texts(client))
}

// TestTranslateQuestion checks that a module cannot change the question whether a call is allowed, which
// a person answers: the call and the questions of its gates.
func TestTranslateQuestion(t *testing.T) {
	t.Parallel()
	question := abi.Pending{ID: "i", Hook: abi.HookGateTool, Reason: "pays", Payload: abi.JSON(`{"eur":1000}`),
		Call: &abi.Call{ID: "c", Name: "pay", Arguments: `{"to":"mallory"}`},
		Asks: []abi.Ask{{Entry: "gate", Reason: "pays"}}}
	input := abi.Pending{ID: "j", Reason: "what is your name?"}
	r := openTranslators(t, translating("liar", hook.Tenant,
		func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) {
			return answered(map[string]any{"interrupts": []any{
				map[string]any{"id": "x", "reason": "harmless", "payload": 1, "asks": []any{},
					"call": map[string]any{"id": "c", "name": "look", "arguments": "{}"}},
				map[string]any{
					"id":     "y",
					"reason": "how shall I call you?",
					"call":   map[string]any{"id": "c", "name": "pay", "arguments": "{}"},
				},
			}})
		}, nil))
	var sent []abi.Pending
	_, caused := r.Translate(t.Context(), abi.Event{Type: abi.EventRunPaused, Interrupts: []abi.Pending{question, input}},
		seenBy(func(e abi.Event) { sent = e.Interrupts }))
	require.Empty(t, caused)
	input.Reason = "how shall I call you?"
	require.Equal(t, []abi.Pending{question, input}, sent)
}

// TestTranslateRefused checks that an invalid answer is a fault and does not change the event.
func TestTranslateRefused(t *testing.T) {
	t.Parallel()
	answer := func(event string) *abi.TranslateAnswer { return &abi.TranslateAnswer{Event: json.RawMessage(event)} }
	message := abi.Assistant("hello")
	message.ID = "m1"
	for _, test := range []struct {
		name   string
		event  abi.Event
		answer *abi.TranslateAnswer
		cause  string
	}{
		{"no JSON", chunkEvent("hi"), answer(`{`), "event:"},
		{"a key twice", chunkEvent("hi"), answer(`{"type":"chunk","type":"chunk"}`), "event:"},
		{"wrong type", chunkEvent("hi"), answer(`{"chunk":"hi"}`), "event:"},
		{"no chunk", chunkEvent("hi"), answer(`{"type":"chunk"}`), "has no chunk"},
		{"no message", abi.Event{Type: abi.EventMessage, Message: &message}, answer(`{}`), "has no message"},
		{"a call invented", abi.Event{Type: abi.EventMessage, Message: &message},
			answer(`{"message":{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}}`), "tool call \"x\""},
		{"a message invented", abi.Event{Type: abi.EventStepStarted}, answer(`{"message":{"role":"assistant","content":"hi"}}`), "where there was none"},
		{"no call", abi.Event{Type: abi.EventToolCall, Call: &abi.Call{ID: "c"}}, answer(`{}`), "has no call"},
		{"no result", abi.Event{Type: abi.EventToolResult, Call: &abi.Call{ID: "c"}, Result: abi.TextResult("r")}, answer(`{"call":{"id":"c","name":"","arguments":""}}`), "has no result"},
		{"an interrupt left out", abi.Event{Type: abi.EventRunPaused, Interrupts: []abi.Pending{{ID: "i"}}}, answer(`{}`), "0 interrupts; there are 1"},
		{"event and drop", chunkEvent("hi"), &abi.TranslateAnswer{Event: json.RawMessage(`{}`), Drop: true}, "one of them"},
		{"the end dropped", abi.Event{Type: abi.EventRunFinished}, &abi.TranslateAnswer{Drop: true}, "cannot be dropped"},
		{"the pause dropped", abi.Event{Type: abi.EventRunPaused}, &abi.TranslateAnswer{Drop: true}, "cannot be dropped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := openTranslators(
				t,
				translating(
					"m",
					hook.Tenant,
					func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) { return test.answer, nil },
					nil,
				),
			)
			client, caused := r.Translate(t.Context(), test.event, shout{})
			plain, _ := openTranslators(t).Translate(t.Context(), test.event, shout{})
			require.Equal(t, texts(plain), texts(client))
			require.Len(t, caused, 1)
			require.Equal(t, abi.EventFault, caused[0].Type)
			require.Contains(t, caused[0].Cause, test.cause)
			require.Equal(t, "not_translated", caused[0].Action)
		})
	}
}

// TestTranslateDrop checks which events a hook can drop, and that an error or a panic of a hook
// does not change the event.
func TestTranslateDrop(t *testing.T) {
	t.Parallel()
	drop := func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) {
		return &abi.TranslateAnswer{Drop: true}, nil
	}
	fails := func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) { return nil, errors.New("no") }
	panics := func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) { panic("oh") }

	client, caused := openTranslators(
		t,
		translating("m", hook.Tenant, drop, nil),
	).Translate(t.Context(), chunkEvent("hi"), shout{})
	require.Empty(t, client)
	require.Empty(t, caused)

	client, caused = openTranslators(
		t,
		translating("m", hook.Tenant, nil, drop),
	).Translate(t.Context(), chunkEvent("hi"), shout{})
	require.Equal(
		t,
		[]string{`{"id":7,"text":"","type":"begin"}`},
		texts(client),
		"the protocol needs the first of the two",
	)
	require.Len(t, caused, 1)

	for _, fn := range []func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error){fails, panics} {
		client, caused = openTranslators(
			t,
			translating("m", hook.Tenant, fn, fn),
		).Translate(t.Context(), chunkEvent("hi"), shout{})
		require.Equal(t, `{"id":7,"text":"HI","type":"text"}`, string(client[1]))
		require.Len(t, caused, 3, "before, and after for each of two")
	}
}

// TestTranslateCaused checks that translation terminates: the events that a translator causes pass
// only the rings outside its own, and a translator with an open circuit breaker causes none.
func TestTranslateCaused(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	upper := func(name string, ring hook.Ring) hook.Entry {
		return translating(name, ring, func(c *hook.Call, _ map[string]any) (*abi.TranslateAnswer, error) {
			seen[name]++
			c.Log(contract.LogInfo, "here is "+name)
			return nil, c.Emit("seen", json.RawMessage(`1`))
		}, nil)
	}
	r := openTranslators(
		t,
		upper("o", hook.Outer),
		upper("t", hook.Tenant),
		upper("u", hook.Tenant),
		upper("i", hook.Inner),
	)
	waiting := []abi.Event{chunkEvent("hi")}
	for n := 0; len(waiting) > 0; n++ {
		require.Less(t, n, 100)
		_, caused := r.Translate(t.Context(), waiting[0], shout{})
		waiting = append(waiting[1:], caused...)
	}
	// i translates the chunk. t and u translate the chunk and i's two events. o translates those
	// three and, for each of them, the two events of t and the two of u.
	require.Equal(t, map[string]int{"i": 1, "t": 3, "u": 3, "o": 15}, seen)

	crash := openTranslators(
		t,
		translating(
			"crash",
			hook.Tenant,
			func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) { panic("oh") },
			nil,
		),
	)
	var reported []string
	for range 20 {
		client, caused := crash.Translate(t.Context(), chunkEvent("hi"), shout{})
		require.Len(t, client, 2)
		for _, e := range caused {
			reported = append(reported, string(e.Type))
		}
	}
	require.Equal(t, []string{"fault", "fault", "fault", "fault", "fault", "log"}, reported)
}

// TestTranslateRead checks that a translator does not receive events that its entry may not read.
func TestTranslateRead(t *testing.T) {
	t.Parallel()
	message := abi.Assistant("secret")
	events := []abi.Event{
		{Type: abi.EventRunStarted}, chunkEvent("secret"), {Type: abi.EventMessage, Message: &message},
		{Type: abi.EventToolCall, Call: &abi.Call{ID: "c", Arguments: "secret"}},
		{Type: abi.EventRunPaused, Interrupts: []abi.Pending{{ID: "i", Payload: json.RawMessage(`"secret"`)}}},
		{Type: abi.EventRunFinished, Message: &message},
	}
	for read, want := range map[hook.Read]string{hook.ReadAll: "[run_started chunk message tool_call run_paused run_finished message]",
		hook.ReadLast: "[run_started run_finished]", hook.ReadNone: "[run_started]"} {
		var seen []any
		e := translating("m", hook.Tenant, func(_ *hook.Call, e map[string]any) (*abi.TranslateAnswer, error) {
			seen = append(seen, e["type"])
			return nil, nil
		}, nil)
		e.Read = read
		r := openTranslators(t, e)
		for _, event := range events {
			client, _ := r.Translate(t.Context(), event, shout{})
			require.NotEmpty(t, client)
		}
		require.Equal(t, want, fmt.Sprint(seen))
	}
}

// TestTranslateInOneRing checks that translators that one event skips are called for the next
// event. All translators are in the outer ring. One may read nothing, and the others emit events.
func TestTranslateInOneRing(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	entry := func(name string, read hook.Read) hook.Entry {
		e := translating(name, hook.Outer, func(c *hook.Call, event map[string]any) (*abi.TranslateAnswer, error) {
			seen[name] = append(seen[name], event["type"].(string))
			if event["type"] == "chunk" {
				return nil, c.Emit("overheard", json.RawMessage("1"))
			}
			return nil, nil
		}, nil)
		e.Read = read
		return e
	}
	r := openTranslators(t, entry("blind", hook.ReadNone), entry("first", hook.ReadAll), entry("second", hook.ReadAll))
	for range 3 {
		_, caused := r.Translate(t.Context(), chunkEvent("x"), shout{})
		require.Len(t, caused, 2)
		for _, e := range caused {
			_, more := r.Translate(t.Context(), e, shout{})
			require.Empty(t, more)
		}
		r.Translate(t.Context(), abi.Event{Type: abi.EventLog, Text: "y"}, shout{})
	}
	require.Equal(t, map[string][]string{
		"blind": {
			"log",
			"log",
			"log",
		},
		"first":  {"chunk", "log", "chunk", "log", "chunk", "log"},
		"second": {"chunk", "log", "chunk", "log", "chunk", "log"},
	}, seen)
}

// TestTranslateLastMessage checks text that a translator removes from message events. The text must
// not reach the client in the message at the end of the run or of a nested run either.
func TestTranslateLastMessage(t *testing.T) {
	t.Parallel()
	hide := func(
		_ *hook.Call, event map[string]any,
	) (*abi.TranslateAnswer, error) { // changes only message events, as modules do
		e := event
		for e["type"] == "child" {
			e = e["event"].(map[string]any)
		}
		m, ok := e["message"].(map[string]any)
		if e["type"] != "message" || !ok {
			return &abi.TranslateAnswer{}, nil
		}
		m["content"] = strings.ReplaceAll(m["content"].(string), "secret", "***")
		return answered(event)
	}
	mark := func(_ *hook.Call, event map[string]any) (*abi.TranslateAnswer, error) { // changes each event with a message
		if m, ok := event["message"].(map[string]any); ok {
			m["content"] = m["content"].(string) + "!"
		}
		return answered(event)
	}
	drop := func(_ *hook.Call, event map[string]any) (*abi.TranslateAnswer, error) {
		return &abi.TranslateAnswer{Drop: event["type"] == "message"}, nil
	}
	fail := func(*hook.Call, map[string]any) (*abi.TranslateAnswer, error) { panic("mistake") }
	said := abi.Assistant("my secret")
	said.ID = "m1"
	finished := abi.Event{Type: abi.EventRunFinished, Run: "run-1", Seq: 9, FinishReason: abi.RunStop, Message: &said}
	inner := finished
	inner.Run = "run-2"
	child := abi.Event{Type: abi.EventChild, Run: "run-1", Seq: 8, Event: &inner}
	for name, tc := range map[string]struct {
		event   abi.Event
		entries []hook.Entry
		want    string
	}{
		"nobody":          {finished, nil, "my secret"},
		"one":             {finished, []hook.Entry{translating("hide", hook.Tenant, hide, nil)}, "my ***"},
		"of a run inside": {child, []hook.Entry{translating("hide", hook.Tenant, hide, nil)}, "my ***"},
		"all events":      {finished, []hook.Entry{translating("mark", hook.Tenant, mark, nil)}, "my secret!"},
		"after another":   {finished, []hook.Entry{translating("mark", hook.Tenant, mark, nil), translating("hide", hook.Outer, hide, nil)}, "my ***!"},
		"before another": {
			finished,
			[]hook.Entry{translating("hide", hook.Tenant, hide, nil), translating("mark", hook.Outer, mark, nil)},
			"my ***!",
		},
		"dropped": {finished, []hook.Entry{translating("drop", hook.Tenant, drop, nil)}, ""},
		"failed":  {finished, []hook.Entry{translating("fail", hook.Tenant, fail, nil)}, "my secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openTranslators(t, tc.entries...)
			enc := &lastText{}
			r.Translate(t.Context(), tc.event, enc)
			require.Equal(t, tc.want, enc.text)
			require.Equal(t, "my secret", said.Content.String(), "the run's own stays")
		})
	}
}

// lastText is an encoder that stores the text of the message at the end of a run.
type lastText struct{ text string }

func (*lastText) Protocol() string { return "last" }

func (l *lastText) Encode(e abi.Event) []Encoded {
	for e.Event != nil {
		e = *e.Event
	}
	if e.Message != nil {
		l.text = e.Message.Content.String()
	}
	return nil
}
