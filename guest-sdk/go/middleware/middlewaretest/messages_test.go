package middlewaretest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// onState returns a host whose module has fn as its hook before_model_rewrite_state.
func onState(fn func(m *middleware.Messages)) *middlewaretest.Host {
	return middlewaretest.New(middleware.Options{}, middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, state *middleware.State) error {
			fn(state.Messages)
			return nil
		}))
}

func users(n int) []abi.Message {
	out := make([]abi.Message, n)
	for i := range out {
		out[i] = abi.User(fmt.Sprintf("text %d", i))
	}
	return out
}

func texts(messages []abi.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, m.Content.String())
	}
	return out
}

// splice applies a patch as the ABI documents it, independently of the SDK.
func splice(shown []abi.Message, patch abi.ListPatch) []abi.Message {
	if patch.Whole {
		return patch.Replace
	}
	out := slices.Clone(shown)
	for _, s := range slices.Backward(patch.Splice) {
		out = slices.Replace(out, s.At, s.At+s.Remove, s.Insert...)
	}
	return out
}

// An edit changes a list and a plain slice in the same way.
type edit func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, fresh func() abi.Message) []abi.Message

var edits = map[string]edit{
	"append": func(_ *rand.Rand, m *middleware.Messages, plain []abi.Message, fresh func() abi.Message) []abi.Message {
		a, b := fresh(), fresh()
		m.Append(a, b)
		return append(plain, a, b)
	},
	"insert": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, fresh func() abi.Message) []abi.Message {
		i, a := r.IntN(len(plain)+1), fresh()
		m.Insert(i, a)
		return slices.Insert(plain, i, a)
	},
	"delete": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, _ func() abi.Message) []abi.Message {
		from := r.IntN(len(plain) + 1)
		to := from + r.IntN(min(4, len(plain)-from+1))
		m.Delete(from, to)
		return slices.Delete(plain, from, to)
	},
	"set": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, fresh func() abi.Message) []abi.Message {
		if len(plain) == 0 {
			return plain
		}
		i, a := r.IntN(len(plain)), fresh()
		m.Set(i, a)
		plain[i] = a
		return plain
	},
	"set to itself": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, _ func() abi.Message) []abi.Message {
		if len(plain) > 0 {
			i := r.IntN(len(plain))
			m.Set(i, m.At(i))
		}
		return plain
	},
	"replace": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, fresh func() abi.Message) []abi.Message {
		from := r.IntN(len(plain) + 1)
		to := from + r.IntN(min(5, len(plain)-from+1))
		put := []abi.Message{fresh(), fresh(), fresh()}[:r.IntN(4)]
		m.Replace(from, to, put...)
		return slices.Replace(plain, from, to, put...)
	},
	"filter": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, _ func() abi.Message) []abi.Message {
		i := -1
		even := func(abi.Message) bool { i++; return i%7 == 3 }
		m.SetAll(slices.DeleteFunc(m.Slice(0, m.Len()), even))
		i = -1
		return slices.DeleteFunc(plain, even)
	},
	"move": func(r *rand.Rand, m *middleware.Messages, plain []abi.Message, _ func() abi.Message) []abi.Message {
		if len(plain) < 2 {
			return plain
		}
		from, to := r.IntN(len(plain)), r.IntN(len(plain)-1)
		moved := m.At(from)
		m.Delete(from, from+1)
		m.Insert(to, moved)
		return slices.Insert(slices.Delete(plain, from, from+1), to, moved)
	},
	"all": func(_ *rand.Rand, m *middleware.Messages, _ []abi.Message, fresh func() abi.Message) []abi.Message {
		put := []abi.Message{fresh(), fresh()}
		m.SetAll(put)
		return put
	},
}

// TestEditsAgainstSlice checks that random edits of a list over several hooks have the same result
// as the same edits of a slice, whether or not the module's memory is reset between them.
func TestEditsAgainstSlice(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range edits {
			if !yield(name) {
				return
			}
		}
	})
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		made := 0
		fresh := func() abi.Message {
			made++
			return abi.User(fmt.Sprintf("new %d", made))
		}
		var plain []abi.Message
		var log []string
		h := onState(func(m *middleware.Messages) {
			require.Equal(t, len(plain), m.Len(), "seed %d", seed)
			for range r.IntN(8) {
				name := names[r.IntN(len(names))]
				log = append(log, name)
				plain = edits[name](r, m, plain, fresh)
				require.Equal(t, len(plain), m.Len(), "seed %d after %v", seed, log)
				if len(plain) > 0 && r.IntN(2) == 0 {
					i := r.IntN(len(plain))
					require.Equal(t, plain[i].Content.String(), m.At(i).Content.String(), "seed %d after %v: message %d", seed, log, i)
				}
			}
			if r.IntN(3) == 0 {
				require.Equal(t, texts(plain), texts(m.Slice(0, m.Len())), "seed %d after %v", seed, log)
			}
		})
		h.SetMessages(users(r.IntN(30))...)
		for range 4 {
			plain = h.Messages()
			shown := h.Messages()
			if r.IntN(4) == 0 {
				require.NoError(t, h.Wipe())
			}
			answer, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
			require.NoError(t, err, "seed %d after %v", seed, log)
			require.Equal(t, texts(plain), texts(splice(shown, answer.Messages)), "seed %d after %v", seed, log)
			requireMinimal(t, shown, answer.Messages)
			require.Equal(t, texts(plain), texts(h.Messages()))
		}
	}
}

// requireMinimal fails if two splices touch, if a splice changes nothing, or if it inserts the
// first message that it removes.
func requireMinimal(t *testing.T, shown []abi.Message, patch abi.ListPatch) {
	t.Helper()
	end := -1
	for _, s := range patch.Splice {
		require.Greater(t, s.At, end, "splices that touch are one")
		require.True(t, s.Remove > 0 || len(s.Insert) > 0, "a splice does something")
		if s.Remove > 0 && len(s.Insert) > 0 {
			require.NotEqual(t, shown[s.At], s.Insert[0], "what stays is not sent")
		}
		end = s.At + s.Remove
	}
}

func TestFetching(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		read func(m *middleware.Messages)
		want int // messages fetched, of 212
	}{
		"length alone":      {func(m *middleware.Messages) { m.Len() }, 0},
		"last":              {func(m *middleware.Messages) { m.Last() }, 1},
		"append":            {func(m *middleware.Messages) { m.Append(abi.User("x")) }, 0},
		"delete":            {func(m *middleware.Messages) { m.Delete(3, 200) }, 0},
		"one":               {func(m *middleware.Messages) { m.At(100) }, 1},
		"a slice":           {func(m *middleware.Messages) { m.Slice(20, 50) }, 30},
		"the same again":    {func(m *middleware.Messages) { m.Slice(20, 50); m.Slice(10, 40); m.At(30) }, 40},
		"all":               {func(m *middleware.Messages) { m.Slice(0, m.Len()) }, 212},
		"what was put":      {func(m *middleware.Messages) { m.Append(abi.User("x")); m.Last() }, 0},
		"backward, two":     {func(m *middleware.Messages) { take(m.Backward(), 2) }, 5},
		"forward, six":      {func(m *middleware.Messages) { take(m.All(), 6) }, 21},
		"after a deletion":  {func(m *middleware.Messages) { m.Delete(0, 211); m.At(0) }, 1},
		"backward, to zero": {func(m *middleware.Messages) { take(m.Backward(), 500) }, 212},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := onState(tc.read)
			h.SetMessages(users(212)...)
			_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
			require.NoError(t, err)
			require.Equal(t, tc.want, h.Pulled)
		})
	}
}

func take(seq func(func(int, abi.Message) bool), n int) {
	for range seq {
		if n--; n == 0 {
			return
		}
	}
}

func TestCacheAcrossHooks(t *testing.T) {
	t.Parallel()
	var seen []string
	h := onState(func(m *middleware.Messages) { seen = texts(m.Slice(0, m.Len())) })
	h.SetMessages(users(50)...)
	read := func() int {
		h.Pulled = 0
		_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
		require.NoError(t, err)
		require.Equal(t, texts(h.Messages()), seen)
		return h.Pulled
	}
	require.Equal(t, 50, read())
	require.Zero(t, read(), "the same revision")
	h.SetMessages(append(h.Messages(), users(3)...)...)
	require.Equal(t, 3, read(), "what was appended")
	h.SetMessages(append(h.Messages()[:10], users(5)...)...)
	require.Equal(t, 5, read(), "a shorter list with another end")
	require.NoError(t, h.Wipe())
	require.Equal(t, 15, read(), "the memory is gone")
	h.Run.ID = "run-2"
	require.Equal(t, 15, read(), "another run's messages are not these")
}

func TestMessagesAreCopies(t *testing.T) {
	t.Parallel()
	call := abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("c1", "t", "{}")}}
	parts := abi.Message{
		Role:    abi.RoleUser,
		Content: abi.Parts(abi.Part{Type: abi.PartText, Text: "p"}),
		Extra:   []byte(`{"a":1}`),
	}
	h := onState(func(m *middleware.Messages) {
		m.Slice(0, 2)[0].ToolCalls[0].Function.Name = "other"
		m.At(0).ToolCalls[0].Function.Name = "other"
		m.At(1).Content.Parts()[0].Text = "other"
		m.At(1).Extra[2] = 'b'
		require.Equal(t, "t", m.At(0).ToolCalls[0].Function.Name)
		require.Equal(t, "p", m.At(1).Content.String())
		require.JSONEq(t, `{"a":1}`, string(m.At(1).Extra))
		mine := m.At(0)
		mine.ToolCalls[0].Function.Name = "changed"
		m.Set(0, mine)
		mine.ToolCalls[0].Function.Name = "changed later"
	})
	h.SetMessages(call, parts)
	answer, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	require.Len(t, answer.Messages.Splice, 1)
	require.Equal(t, "changed", answer.Messages.Splice[0].Insert[0].ToolCalls[0].Function.Name)
}

func TestIterateAndEdit(t *testing.T) {
	t.Parallel()
	h := onState(func(m *middleware.Messages) {
		for i := range m.Backward() {
			if i%2 == 1 {
				m.Delete(i, i+1)
			}
		}
		for i, msg := range m.All() {
			if i == 1 {
				msg.Content = abi.Text("set")
				m.Set(i, msg)
			}
		}
	})
	h.SetMessages(users(7)...)
	answer, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	require.Equal(t, []string{"text 0", "set", "text 4", "text 6"}, texts(h.Messages()))
	require.Len(t, answer.Messages.Splice, 2, "1 to 3 are one place, 5 another")
}

func TestListMistakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(m *middleware.Messages)
		want string
	}{
		"at":     {func(m *middleware.Messages) { m.At(3) }, "index 3 is out of range: the list has 3 messages"},
		"below":  {func(m *middleware.Messages) { m.At(-1) }, "index -1"},
		"delete": {func(m *middleware.Messages) { m.Delete(0, 4) }, "index 4"},
		"insert": {func(m *middleware.Messages) { m.Insert(4, abi.User("x")) }, "index 4"},
		"order":  {func(m *middleware.Messages) { m.Replace(2, 1) }, "messages 2 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := onState(tc.edit)
			h.SetMessages(users(3)...)
			defer func() { require.Contains(t, fmt.Sprint(recover()), tc.want) }()
			_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
			t.Fatalf("did not panic: %v", err)
		})
	}
	h := onState(func(m *middleware.Messages) { m.Append(abi.Message{Role: "robot"}) })
	_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.ErrorContains(t, err, `unknown role "robot"`)
}

func TestListHostError(t *testing.T) {
	t.Parallel()
	reached := false
	m := middleware.NewModule(middleware.Options{}, middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, state *middleware.State) error {
			state.Messages.Last()
			reached = true
			return nil
		}))
	output, ok := m.Call(refusing{}, contract.HookBeforeModelRewriteState,
		[]byte(`{"run":{"id":"r"},"messages":{"list":0,"revision":1,"total":2},"tools":[]}`))
	require.False(t, ok)
	require.JSONEq(t, `{"code":"denied","message":"read messages 1 to 2: not granted"}`, string(output))
	require.False(t, reached, "reading does not return")
}

// refusing is a host that fails to provide messages.
type refusing struct{ middleware.Host }

func (refusing) Messages(int, int, int) ([]byte, error) {
	return nil, &abi.Error{Code: abi.CodeDenied, Message: "not granted"}
}
