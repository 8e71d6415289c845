package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
)

// TestCacheBreak sends the requests of a conversation through a module that replaces "secret", and checks how many
// tokens are reported as lost for the cache.
func TestCacheBreak(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	text := func(s, mark string) string {
		return fmt.Sprintf(`{"type":"text","text":"%s"%s}`, s, mark)
	}
	ask := func(system, list string) string {
		return `{"model":"m","max_tokens":9,"system":[` + system + `],"messages":[` + list + `]}`
	}
	user := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	long := strings.Repeat("a", 400)
	n := 0
	for name, c := range map[string]struct {
		replace  func() string
		requests []string
		want     []int64 // lower bounds; 0 is no event
	}{
		"the same change": {func() string { return "[1]" }, []string{
			ask(text("secret"+long, ""), user(text("hi", mark))),
			ask(text("secret"+long, ""), user(text("hi", ""), text("secret"+long, ""), text("more", mark))),
			ask(text("secret"+long, ""), user(text("hi", ""), text("secret"+long, ""), text("more", ""), text("end", mark))),
		}, []int64{100, 100, 0}},
		"another change each time": {func() string { n++; return fmt.Sprint(n) }, []string{
			ask(text("secret"+long, ""), user(text("hi", mark))), ask(text("secret"+long, ""), user(text("hi", mark))),
		}, []int64{100, 100}},
		"behind the breakpoint": {func() string { return "[1]" }, []string{
			ask(text(long, mark), user(text("secret", "")))}, []int64{0}},
		"no breakpoint": {func() string { return "[1]" }, []string{
			ask(text("secret", ""), user(text("hi", "")))}, []int64{0}},
		"no change": {func() string { return "secret" }, []string{
			ask(text("secret", mark), user(text("hi", mark)))}, []int64{0}},
		"words about a mark": {func() string { return "[1]" }, []string{
			ask(text(`secret \"cache_control\"`, ""), user(text("hi", "")))}, []int64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answers(`{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}`))
			g := newGateway(t, u, overMessages, &native.Middleware{
				BeforeModel: func(_ context.Context, call *native.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					var out abi.BeforeModelAnswer
					list := call.List(abi.ListRequest)
					for i := range list.Len() {
						m := list.At(i)
						parts := m.Content.Parts()
						for j := range parts {
							parts[j].Text = strings.ReplaceAll(parts[j].Text, "secret", c.replace())
						}
						m.Content = abi.Parts(parts...)
						out.Request.Messages.Splice = append(out.Request.Messages.Splice,
							abi.Splice{At: i, Remove: 1, Insert: []abi.Message{m}})
					}
					return &out, nil
				},
			})
			for i, body := range c.requests {
				before := len(g.events())
				status, got, _ := g.post(t, "/v1/messages", body)
				require.Equal(t, 200, status, got)
				tokens := int64(0)
				for _, e := range g.events()[before:] {
					tokens += CacheBreakOf(&e)
				}
				require.GreaterOrEqual(t, tokens, c.want[i], "request %d", i)
				require.LessOrEqual(t, tokens, c.want[i]+60, "request %d", i)
			}
		})
	}
}

// TestChangeLog checks that the log of changes stays small, and that it recognizes blocks in another order as a
// change that can be repeated.
func TestChangeLog(t *testing.T) {
	const maxChanges = 1000
	l := newChangeLog(maxChanges)
	blocks := func(texts ...string) []wire.CacheBlock {
		var out []wire.CacheBlock
		for _, text := range texts {
			out = append(out, wire.CacheBlock{Owner: "tool", Text: []byte(text)})
		}
		return out
	}
	require.EqualValues(t, 3, l.broken(blocks("a", "bb"), blocks("bb", "a")))
	require.Zero(t, l.broken(blocks("a", "bb"), blocks("bb", "a")))
	require.EqualValues(t, 2, l.broken(blocks("a", "bb"), blocks("bb")), "a known change, then a dropped block")
	require.Zero(t, l.broken(blocks("a", "bb"), blocks("a", "bb")))
	for i := range 3 * maxChanges {
		l.broken(blocks(fmt.Sprint(i)), nil)
	}
	require.LessOrEqual(t, len(l.now)+len(l.old), 2*maxChanges)
}

func TestCacheBreakIsTheHosts(t *testing.T) {
	for _, e := range []abi.Event{
		{Type: abi.EventCustom, Entry: "m1", Name: cacheBreak, Data: abi.JSON(`{"tokens":5}`)},
		{Type: abi.EventCustom, Name: cacheBreak, Data: abi.JSON(`[]`)},
		{Type: abi.EventLog, Name: cacheBreak, Data: abi.JSON(`{"tokens":5}`)},
	} {
		require.Zero(t, CacheBreakOf(&e))
	}
}

func TestCachePrefix(t *testing.T) {
	p := messages.Protocol{}
	require.Empty(t, p.CachePrefix([]byte(`{"messages":[{"role":"user","content":"hi"}]}`)))
	require.Empty(t, p.CachePrefix([]byte(`no`)))
	require.Len(t, p.CachePrefix([]byte(`{"cache_control":{"type":"ephemeral"},"system":"s","tools":[{"name":"t"}],`+
		`"messages":[{"role":"user","content":"hi"}]}`)), 3)
	with := p.CachePrefix([]byte(`{"tools":[{"name":"t","cache_control":{}},{"name":"u"}]}`))
	require.Len(t, with, 1)
	require.Equal(
		t,
		with[0],
		p.CachePrefix([]byte(`{"tools":[{"name":"t"}],"system":[{"type":"text","text":"s","cache_control":{}}]}`))[0],
	)
}
