package usage

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFinal checks that the usage in the start of a stream is not taken for that of the whole answer.
func TestFinal(t *testing.T) {
	r := NewReader(true)
	for _, c := range []struct {
		event string
		final bool
	}{
		{`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`, false},
		{`{"type":"content_block_delta","delta":{"usage":{"output_tokens":1}}}`, false},
		{`{"type":"message_delta","delta":{},"usage":{"output_tokens":7}}`, true},
		{`{"type":"message_start","message":{"usage":{"input_tokens":3}}}`, true},
	} {
		_, _ = r.Write([]byte("data: " + c.event + "\n\n"))
		require.True(t, r.Known)
		require.Equal(t, c.final, r.Final, c.event)
	}
	for _, name := range []string{"chat, streamed", "responses, streamed", "messages"} {
		r := NewReader(answers[name].stream)
		_, _ = r.Write([]byte(answers[name].text))
		require.True(t, r.Final, name)
	}
}

// answers are answers of the APIs, and the usage that they report.
var answers = map[string]struct {
	text   string
	stream bool
	want   Tokens
	known  bool
}{
	"chat": {
		text: `{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],` +
			`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}`,
		want: Tokens{Input: 6, CacheRead: 4, Output: 5}, known: true,
	},
	"chat, streamed": {
		text: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\r\n\r\ndata: [DONE]\n\n",
		stream: true, want: Tokens{Input: 10, Output: 5}, known: true,
	},
	"responses": {
		text: `{"output":[{"usage":{"input_tokens":99}}],"metadata":{"usage":{"input_tokens":98}},` +
			`"usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":8},"output_tokens":2}}`,
		want: Tokens{CacheRead: 8, Output: 2}, known: true,
	},
	"responses, streamed": {
		text: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"usage\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":" +
			"{\"input_tokens\":8,\"output_tokens\":2}}}\n\n",
		stream: true, want: Tokens{Input: 8, Output: 2}, known: true,
	},
	"messages": {
		text: `{"content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":7}}`,
		want: Tokens{Input: 3, CacheRead: 100, CacheWrite: 20, Output: 7}, known: true,
	},
	"messages, streamed": {
		text: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":" +
			"{\"input_tokens\":3,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":7}}\n\n",
		stream: true, want: Tokens{Input: 3, CacheRead: 100, Output: 7}, known: true,
	},
	"no usage": {text: `{"choices":[]}`},
	"no JSON":  {text: "}}}]\x00{\"usage\":"},
	"huge numbers": {
		text:  `{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":1e99}}`,
		want:  Tokens{Input: maxTokens},
		known: true,
	},
	"negative": {
		text:  `{"usage":{"prompt_tokens":-5,"prompt_tokens_details":{"cached_tokens":-9},"completion_tokens":-1}}`,
		known: true,
	},
	"more cached": {
		text:  `{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":9}}}`,
		want:  Tokens{CacheRead: 5},
		known: true,
	},
	"a string":       {text: `{"usage":"{\"prompt_tokens\":3}"}`},
	"a tool's input": {text: `{"content":[{"input":{"usage":{"input_tokens":5}}}]}`},
	"an endless one": {text: `{"usage":{"a":"` + strings.Repeat("x", 2*maxObject) + `","prompt_tokens":3}}`},
}

func TestReader(t *testing.T) {
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 3, len(c.text)} {
				r := NewReader(c.stream)
				for rest := c.text; rest != ""; rest = rest[min(size, len(rest)):] {
					n, err := r.Write([]byte(rest[:min(size, len(rest))]))
					require.NoError(t, err)
					require.Equal(t, min(size, len(rest)), n)
				}
				require.Equal(t, c.want, r.Tokens)
				require.Equal(t, c.known, r.Known)
				require.EqualValues(t, len(c.text), r.Bytes)
				require.EqualValues(t, strings.Count(c.text, "data:"), r.Events)
				require.LessOrEqual(t, cap(r.text.object), 2*maxObject)
			}
		})
	}
}

// FuzzReader checks that a reader takes any text in any pieces with the same result, within its limits.
func FuzzReader(f *testing.F) {
	for _, c := range answers {
		f.Add(c.text, c.stream, 5)
	}
	f.Fuzz(func(t *testing.T, text string, stream bool, size int) {
		size = max(1, size%100)
		whole, pieces := NewReader(stream), NewReader(stream)
		_, _ = whole.Write([]byte(text))
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			_, _ = pieces.Write([]byte(rest[:min(size, len(rest))]))
		}
		require.Equal(t, whole.Tokens, pieces.Tokens)
		require.Equal(t, whole.Known, pieces.Known)
		require.Equal(t, whole.Events, pieces.Events)
		for _, n := range []int64{whole.Tokens.Input, whole.Tokens.CacheRead, whole.Tokens.CacheWrite, whole.Tokens.Output} {
			require.GreaterOrEqual(t, n, int64(0))
			require.LessOrEqual(t, n, int64(maxTokens))
		}
	})
}
