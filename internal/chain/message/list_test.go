package message

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestChanged compares the results of Changed with complete copies of the lists. Whatever edits lie
// between two revisions, the messages before the returned index must be the same.
func TestChanged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		revs := NewRevisions()
		prefix := NewList(revs, []abi.Message{abi.System("s")})
		list := NewList(revs, nil)
		seen := map[int64][]abi.Message{list.rev: {}}
		requests := map[int64][]abi.Message{}
		for n := range 30 {
			at := rnd.IntN(list.Len() + 1)
			remove := rnd.IntN(list.Len() - at + 1)
			list = list.splice([]abi.Splice{{At: at, Remove: remove, Insert: []abi.Message{abi.User(strconv.Itoa(n))}}})
			seen[list.rev] = list.All()
			req := list.Prefixed(nil, prefix)
			if rnd.IntN(2) == 0 {
				req = req.Insert(rnd.IntN(req.Len()+1), abi.User("r"+strconv.Itoa(n)))
			}
			requests[req.rev] = req.All()

			for rev, before := range seen {
				holds(t, list, rev, before)
			}
			for rev, before := range requests {
				holds(t, req, rev, before)
			}
			require.Equal(t, list.Len(), list.Changed(list.rev))
		}
	}
}

// holds checks the index that now.Changed returns for revision rev. The messages of now before the
// index must be equal to those in before.
func holds(t *testing.T, now *List, rev int64, before []abi.Message) {
	t.Helper()
	first := now.Changed(rev)
	require.LessOrEqual(t, first, now.Len())
	require.LessOrEqual(t, first, len(before))
	require.Equal(t, before[:first], now.All()[:first])
}

// TestChangedIsExact checks that a module that saw the list one step ago reads only the new
// messages. A request with another prefix and an unknown revision must count as changed from the
// start.
func TestChangedIsExact(t *testing.T) {
	t.Parallel()
	revs := NewRevisions()
	prefix := NewList(revs, []abi.Message{abi.System("s")})
	list := NewList(revs, []abi.Message{abi.User("a"), abi.User("b")})
	before := list.Prefixed(nil, prefix)
	after := list.Append(abi.User("c")).Prefixed(nil, prefix)
	require.Equal(t, 3, after.Changed(before.rev))
	require.Equal(
		t,
		0,
		list.Prefixed(nil, NewList(revs, []abi.Message{abi.System("t")})).Changed(before.rev),
		"another prefix",
	)
	require.Equal(t, 2, list.Prefixed(nil, nil).Changed(list.Prefixed(nil, nil).rev), "no prefix")
	require.Equal(t, 2, list.Append(abi.User("c")).Changed(list.rev))
	require.Equal(t, 0, list.Changed(99), "an unknown revision")
}

func TestListJSONIsBounded(t *testing.T) {
	t.Parallel()
	list := NewList(NewRevisions(), []abi.Message{abi.User("aaaa"), abi.User("bbbb")})
	b, ok := list.AppendJSON(nil, -5, 99, 1000, false)
	require.True(t, ok)
	require.JSONEq(t, `[{"role":"user","content":"aaaa"},{"role":"user","content":"bbbb"}]`, string(b))
	_, ok = list.AppendJSON(nil, 0, 2, 40, false)
	require.False(t, ok)
	b, ok = list.AppendJSON(nil, 2, 1, 10, false)
	require.True(t, ok)
	require.Equal(t, "[]", string(b))
}

// TestListsShare checks that lists that share an array do not see the messages that the others
// append.
func TestListsShare(t *testing.T) {
	t.Parallel()
	revs := NewRevisions()
	texts := func(l *List) (out []string) {
		for _, m := range l.All() {
			out = append(out, m.Content.String())
		}
		return out
	}
	system := NewList(revs, []abi.Message{abi.System("s")})
	state := NewList(revs, []abi.Message{abi.User("0")})
	var flat Flat
	var request *List
	want := []string{"0"}
	type seen struct {
		list *List
		flat []abi.Message
		want []string
	}
	var before []seen
	for i := 1; i < 100; i++ {
		text := strconv.Itoa(i)
		side := state.Append(abi.User("another " + text)) // claims the shared spare capacity first
		if i%7 == 0 {                                     // also change the middle of the list
			state, want = state.Insert(1, abi.User("x"), abi.User("y")), slices.Insert(slices.Clone(want), 1, "x", "y")
		}
		state, want = state.Append(abi.User(text)), append(slices.Clone(want), text)
		if i%9 == 0 {
			system = NewList(revs, []abi.Message{abi.System("another s")})
		}
		request = state.Prefixed(request, system)
		require.Equal(t, want, texts(state))
		require.Equal(t, append(texts(system), want...), texts(request))
		require.Equal(t, "another "+text, texts(side)[side.Len()-1])
		before = append(before, seen{request, flat.All(request), append(texts(system), want...)})
	}
	for _, s := range before {
		require.Equal(t, s.want, texts(s.list))
		require.Equal(t, s.list.All(), s.flat)
	}
	require.Equal(t, system.All(), flat.All(system))
}
