package responses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

func FuzzRequest(f *testing.F) {
	f.Add([]byte(codexRequest), uint16(1<<3|1<<5))
	f.Add([]byte(`{"instructions":"x","input":"y","tools":[{"type":"function","name":"a","strict":true}]}`), uint16(1))
	f.Add(
		[]byte(`{"input":[{"type":"reasoning"},{"role":"assistant","content":null},{"type":"item_reference"}]}`),
		uint16(2),
	)
	f.Fuzz(func(t *testing.T, body []byte, removed uint16) {
		r, err := Protocol{}.ParseRequest(body)
		if err != nil {
			return
		}
		same, err := r.Encode(next(r))
		require.NoError(t, err)
		require.Equal(t, string(body), string(same))
		ids := map[string]bool{}
		changed := next(r)
		for i := range changed.Messages {
			m := &changed.Messages[i]
			require.False(t, ids[m.ID])
			ids[m.ID] = true
			parts := append([]abi.Part(nil), m.Content.Parts()...)
			for k := range parts {
				if parts[k].Type == abi.PartText {
					parts[k].Text += "é\n"
				}
			}
			if len(parts) > 0 {
				m.Content = abi.Parts(parts...)
			}
		}
		checkRemoved(t, r.(*request), removed)
		got, err := r.Encode(changed)
		if err != nil {
			return
		}
		again, err := Protocol{}.ParseRequest(got)
		require.NoError(t, err)
		require.Len(t, again.Call().Messages, len(changed.Messages))
		for i := range changed.Messages {
			require.True(t, sameContent(changed.Messages[i].Content, again.Call().Messages[i].Content))
		}
	})
}

// checkRemoved removes messages, and checks that the request is an error or one that the upstream accepts.
func checkRemoved(t *testing.T, r *request, removed uint16) {
	c := next(r)
	var kept []abi.Message
	for i := range c.Messages {
		if removed>>(i%16)&1 == 0 {
			kept = append(kept, c.Messages[i])
		}
	}
	c.Messages = kept
	got, err := r.Encode(c)
	if err != nil {
		var e *wire.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, wire.CodeModule, e.Code)
		return
	}
	again, err := Protocol{}.ParseRequest(got)
	require.NoError(t, err, "%s", got)
	if checkItems(r.items) == nil {
		require.NoError(t, checkItems(again.(*request).items), "%s", got)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(wholeAnswer), "x")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		a, err := Protocol{}.ParseAnswer(body)
		if err != nil {
			return
		}
		res := *a.Response()
		same, err := a.Encode(&res, nil)
		require.NoError(t, err)
		require.Equal(t, string(body), string(same))
		denied := map[string]string{}
		for _, c := range res.Message.ToolCalls {
			denied[c.ID] = text
		}
		res.Message.Content = abi.Text(text)
		got, err := a.Encode(&res, denied)
		require.NoError(t, err)
		again, err := Protocol{}.ParseAnswer(got)
		require.NoError(t, err)
		require.Empty(t, again.Response().Message.ToolCalls)
	})
}

func FuzzStream(f *testing.F) {
	for file, stream := range upstreams(f) {
		f.Add(stream, "x", uint8(len(file)))
	}
	f.Fuzz(func(t *testing.T, in []byte, text string, fates uint8) {
		text = strings.ToValidUTF8(text, "?")
		s := Protocol{}.NewStream("m")
		same, err := play(s, in, &plan{})
		if err != nil {
			return
		}
		if s.Complete() {
			require.Equal(t, string(in), string(same))
		}
		p := &plan{text: map[int]string{}, drop: map[int]bool{}, deny: map[int]string{}, call: map[int]string{}}
		for block, c := range s.(*stream).blocks {
			switch fate := fates >> (2 * (block % 4)) & 3; {
			case fate == 1:
				p.drop[block] = true
			case fate == 2 && c.call == nil:
				p.text[block] = text
			case fate == 2 && c.call != nil:
				p.deny[block] = text
			case fate == 3 && c.call != nil:
				p.call[block] = `{"input":` + string(rawjson.Quote(text)) + `}`
			case fate == 3:
				p.text[block] = ""
			}
		}
		out, err := play(Protocol{}.NewStream("m"), in, p)
		require.NoError(t, err)
		again := Protocol{}.NewStream("m")
		_, err = play(again, out, &plan{})
		require.NoError(t, err, "%s", out)
		require.Equal(t, p.want(s.(*stream)), contents(again.(*stream)), "%s", out)
	})
}

// want returns the number of each text and call that the client gets of a stream with the changes of p,
// except for empty texts.
func (p *plan) want(s *stream) map[string]int {
	out := map[string]int{}
	for i, b := range s.blocks {
		if text, ok := p.deny[i]; ok {
			out["text "+text]++
			continue
		}
		if p.drop[i] {
			continue
		}
		c := b.content()
		if text, ok := p.text[i]; ok {
			c = "text " + text
		}
		if args, ok := p.call[i]; ok {
			c = b.call.id + " " + args
		}
		out[c]++
	}
	delete(out, "text ")
	return out
}

func contents(s *stream) map[string]int { return (&plan{}).want(s) }

func (b *block) content() string {
	if b.call == nil {
		return "text " + b.text.String()
	}
	c := *b.call
	c.text = b.text.String()
	return c.id + " " + c.arguments()
}
