package weave

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A recorder is a stream that collects the text and the calls that a client gets.
type recorder struct {
	wire.Stream
	text  strings.Builder
	calls []string
	open  map[int]bool
	t     *testing.T
}

func (r *recorder) Pass(dst []byte, it *wire.Item) []byte {
	switch {
	case it.Kind == wire.Open:
		require.False(r.t, r.open[it.Block], "a block is opened once")
		r.open[it.Block] = true
		if it.Chunk.Kind == abi.ChunkToolCall {
			r.calls = append(r.calls, it.Chunk.ID)
		}
	case it.Kind == wire.Delta && it.Chunk.Kind == abi.ChunkText:
		require.True(r.t, r.open[it.Block])
		r.text.WriteString(it.Chunk.Text)
	case it.Kind == wire.Close:
		require.True(r.t, r.open[it.Block])
	}
	return append(dst, it.Event...)
}

func (r *recorder) Drop(it *wire.Item) { require.False(r.t, r.open[it.Block]) }

func (r *recorder) Text(dst []byte, open *wire.Item, text string) []byte {
	require.True(r.t, r.open[open.Block])
	r.text.WriteString(text)
	return append(dst, 't')
}

func (r *recorder) CloseText(dst []byte, open *wire.Item, _ string) []byte {
	require.True(r.t, r.open[open.Block])
	return append(dst, 'c')
}

func (r *recorder) AddText(dst []byte, _, text string) []byte {
	r.text.WriteString(text)
	return append(dst, 'a')
}

func (r *recorder) AddCall(dst []byte, c *abi.ToolCall) []byte {
	r.calls = append(r.calls, c.ID)
	return append(dst, 'd')
}

func (r *recorder) End(dst []byte, _ []wire.Item, _ string) []byte { return append(dst, 'e') }

// FuzzWeaver checks that the client gets the text and the calls of the final answer, each once, even if the chunks
// leave the chain in other pieces, later, and changed.
func FuzzWeaver(f *testing.F) {
	f.Add("start (0 0=ab 0=cd )0 (1 1=ef )1 !2 2={} )2 end", uint64(7), uint8(3), "")
	f.Add("(0 0=ab ping 0=cd )0 (1 1=ef )1 end", uint64(1), uint8(1), "b")
	f.Add("(0 )0 !1 1={} )1 (2 2=a )2 end", uint64(0), uint8(0), "a")
	f.Fuzz(func(t *testing.T, from string, late uint64, piece uint8, change string) {
		list, ok := wellFormed(from)
		if !ok {
			return
		}
		r := &recorder{t: t, open: map[int]bool{}}
		w := New(r, Options{Hold: late%5 == 0})
		var all, left string
		res := &abi.Response{Message: abi.Message{Role: abi.RoleAssistant}}
		var waiting string
		flush := func(n int) {
			for len(waiting) > 0 && n > 0 {
				k := min(len(waiting), 1+int(piece%4))
				w.Leave(nil, []abi.Chunk{txt(waiting[:k])})
				left, waiting, n = left+waiting[:k], waiting[k:], n-k
			}
		}
		for i, it := range list {
			_, chunks, err := w.Receive(nil, []wire.Item{it})
			require.NoError(t, err)
			for _, c := range chunks {
				switch {
				case c.Kind == abi.ChunkText:
					text := c.Text
					if change != "" {
						text = strings.ReplaceAll(text, change, change+change)
					}
					all, waiting = all+text, waiting+text
				case c.ID != "":
					flush(len(waiting))
					w.Leave(nil, chunks)
					res.Message.ToolCalls = append(res.Message.ToolCalls, abi.NewToolCall(c.ID, c.Name, ""))
				}
			}
			if late>>(i%64)&1 == 0 {
				flush(int(piece))
			}
		}
		res.Message.Content = abi.Text(all)
		_, err := w.Finish(nil, res, nil)
		require.NoError(t, err)
		require.Equal(t, all, r.text.String())
		require.Len(t, r.calls, len(res.Message.ToolCalls))
	})
}

// wellFormed returns the items of text if its blocks follow each other, as codecs return them. It
// returns false otherwise.
func wellFormed(text string) ([]wire.Item, bool) {
	for word := range strings.FieldsSeq(text) {
		if len(word) > 1 && strings.ContainsAny(word[:1], "(!)") && (word[1] < '0' || word[1] > '9') ||
			len(word) == 1 && strings.ContainsAny(word, "(!)<") || word[0] == '<' {
			return nil, false
		}
	}
	list := items(text)
	open, used, ended := -1, map[int]bool{}, false
	for _, it := range list {
		switch {
		case ended:
			return nil, false
		case it.Kind == wire.Open && (open >= 0 || used[it.Block]),
			(it.Kind == wire.Delta || it.Kind == wire.Close) && open != it.Block:
			return nil, false
		case it.Kind == wire.Open:
			open, used[it.Block] = it.Block, true
		case it.Kind == wire.Close:
			open = -1
		case it.Kind == wire.End:
			ended = open < 0
			if !ended {
				return nil, false
			}
		}
	}
	return list, ended
}
