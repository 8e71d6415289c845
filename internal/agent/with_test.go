package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

type nextTool = func(context.Context, abi.CallPatch) (*abi.Result, error)

// TestConstructors checks the messages that the model receives when an agent's middlewares are made
// by each of package native's simple constructors, and by several of them together.
func TestConstructors(t *testing.T) {
	t.Parallel()
	add := native.Tool{Tool: abi.Tool{Name: "added"}, Call: func(_ context.Context, c abi.Call) (*abi.Result, error) {
		return abi.TextResult("added" + c.Arguments), nil
	}}
	shout := func(ctx context.Context, c abi.Call, next nextTool) (*abi.Result, error) {
		res, err := next(ctx, abi.CallPatch{})
		if err == nil {
			res.Content = abi.Text(strings.ToUpper(res.Content.String()))
		}
		return res, err
	}
	appendTo := func(text string) func(context.Context, []abi.Message) ([]abi.Message, error) {
		return func(_ context.Context, m []abi.Message) ([]abi.Message, error) { return append(m, abi.User(text)), nil }
	}
	once := func(m []abi.Message) bool { return m[len(m)-1].Content.String() == "first" }
	for name, tc := range map[string]struct {
		middlewares []*native.Middleware
		replies     []scripted.Reply
		want        []string // the messages of the model's last request
	}{
		"WithInstruction": {[]*native.Middleware{native.WithInstruction("one"), native.WithInstruction("two")},
			[]scripted.Reply{scripted.Text("done")}, []string{"S:base\n\none\n\ntwo", "U:hi"}},
		"WithInstructionFunc": {[]*native.Middleware{native.WithInstructionFunc(func(_ context.Context, s string) (string, error) { return s + "|x", nil })},
			[]scripted.Reply{scripted.Text("done")}, []string{"S:base|x", "U:hi"}},
		"WithTools": {[]*native.Middleware{native.WithTools(add)},
			[]scripted.Reply{calls("added#1"), scripted.Text("done")}, []string{"S:base", "U:hi", "A:[added#1]", "T:added{}#1"}},
		"WithToolsFunc": {[]*native.Middleware{native.WithToolsFunc(func(_ context.Context, tools []abi.Tool) ([]abi.Tool, error) { return tools[1:], nil })},
			[]scripted.Reply{calls("u#1"), scripted.Text("done")}, []string{"S:base", "U:hi", "A:[u#1]", "T:u-ok#1"}},
		"WithBeforeModelRewriteState": {[]*native.Middleware{native.WithBeforeModelRewriteState(appendTo("before"))},
			[]scripted.Reply{scripted.Text("done")}, []string{"S:base", "U:hi", "U:before"}},
		"WithAfterModelRewriteState": {
			[]*native.Middleware{native.WithAfterModelRewriteState(func(
				ctx context.Context, m []abi.Message,
			) ([]abi.Message, error) {
				if once(m) {
					return appendTo("after")(ctx, m)
				}
				return m, nil
			})},
			[]scripted.Reply{scripted.Text("first"), scripted.Text("done")},
			[]string{"S:base", "U:hi", "A:first", "U:after"},
		},
		"WithModelWrapper": {[]*native.Middleware{native.WithModelWrapper(func(ctx context.Context, _ abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error)) (*abi.Response, error) {
			return next(ctx, abi.RequestPatch{Messages: abi.ListPatch{Splice: []abi.Splice{{
				At: 1, Insert: []abi.Message{abi.User("pre")},
			}}}})
		})}, []scripted.Reply{scripted.Text("done")}, []string{"S:base", "U:pre", "U:hi"}},
		"WithToolCallWrapper": {[]*native.Middleware{native.WithToolCallWrapper(shout)},
			[]scripted.Reply{calls("t#1"), scripted.Text("done")}, []string{"S:base", "U:hi", "A:[t#1]", "T:T-OK#1"}},
		"several": {[]*native.Middleware{native.WithInstruction("m"), native.WithTools(add),
			native.WithBeforeModelRewriteState(appendTo("b")), native.WithToolCallWrapper(shout),
			native.WithInstructionFunc(func(_ context.Context, s string) (string, error) { return s + "|h1", nil })},
			[]scripted.Reply{calls("added#1"), scripted.Text("done")},
			[]string{"S:base\n\nm|h1", "U:hi", "U:b", "A:[added#1]", "T:ADDED{}#1", "U:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entries []hook.Entry
			for i, m := range tc.middlewares {
				entries = append(entries, nativeEntry(string(rune('a'+i)), (*inproc.Middleware)(m)))
			}
			tr := try(
				t,
				agent.Options{
					Instruction: "base",
					Tools:       []tool.Tool{toolNamed("t", "t-ok"), toolNamed("u", "u-ok")},
					Chain:       with(t, entries...),
				},
				tc.replies,
			)
			require.NoError(t, tr.err)
			require.Equal(t, tc.want, tr.seen(len(tc.replies)-1))
		})
	}
}
