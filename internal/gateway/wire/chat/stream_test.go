package chat

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

var update = flag.Bool("update", false, "write what the client received into testdata/streams")

// TestStreams runs the cases of testdata/streams. A case contains the upstream's stream, the changes of modules and
// gates, one a line, and the expected stream for the client.
func TestStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.Len(t, a.Files, 3)
			upstream, changes := string(a.Files[0].Data), string(a.Files[1].Data)
			got := apply(t, upstream, changes)
			if strings.HasSuffix(file, "-unchanged.txtar") {
				require.Equal(t, upstream, got, "an unchanged stream must keep its bytes")
			}
			if *update {
				a.Files[2].Data = []byte(got)
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o600))
			}
			require.Equal(t, string(a.Files[2].Data), got)
		})
	}
}

// apply passes a stream through the codec with the given changes, and returns what the client receives:
//
//	drop N          block N is not passed
//	deny N TEXT     block N is a call that becomes TEXT
//	text N TEXT     the whole text of block N becomes TEXT
//	before TEXT     TEXT is a block before the answer
//	call NAME ARGS  a call is added at the end
//	finish REASON   the finish reason changes
func apply(t *testing.T, upstream, changes string) string {
	t.Helper()
	s := Protocol{}.NewStream("model-1")
	var out []byte
	drop, texts, finish := map[int]string{}, map[int]string{}, ""
	var calls []abi.ToolCall
	for line := range strings.Lines(changes) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		first, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(first)
		switch verb {
		case "drop", "deny":
			drop[n] = text
		case "text":
			texts[n] = text
		case "before":
			out = s.AddText(out, abi.ChunkText, rest)
		case "call":
			calls = append(calls, abi.NewToolCall("call_new", first, text))
		case "finish":
			finish = rest
		default:
			require.FailNow(t, "unknown change", line)
		}
	}
	var open wire.Item
	var ends []wire.Item
	for _, event := range split(upstream) {
		items, err := s.Decode([]byte(event))
		if err != nil {
			return string(s.Error(out, err.(*wire.Error))) //nolint:errorlint // the codec returns this type
		}
		for i := range items {
			it := &items[i]
			text, changed := texts[it.Block]
			message, dropped := drop[it.Block]
			inBlock := it.Kind == wire.Open || it.Kind == wire.Delta || it.Kind == wire.Close
			switch {
			case it.Kind == wire.End:
				ends = append(ends, *it)
			case inBlock && dropped && it.Kind == wire.Open:
				s.Drop(it)
				if message != "" {
					out = s.AddText(out, abi.ChunkText, message)
				}
			case inBlock && dropped:
			case inBlock && changed && it.Kind == wire.Delta:
			case inBlock && changed && it.Kind == wire.Close:
				out = s.Text(out, &open, text)
				out = s.CloseText(out, &open, text)
			default:
				if it.Kind == wire.Open {
					open = *it
				}
				out = s.Pass(out, it)
			}
		}
	}
	if upstream != "" && !s.Complete() {
		return string(s.Error(out, wire.Errorf(wire.CodeUpstream, "the upstream's answer was cut off")))
	}
	for i := range calls {
		out = s.AddCall(out, &calls[i])
	}
	out = s.End(out, ends, finish)
	return made.ReplaceAllString(string(out), `"id":"chatcmpl-NEW","object":"chat.completion.chunk","created":0`)
}

// made matches the parts of events that differ in each test.
var made = regexp.MustCompile(`"id":"chatcmpl-[A-Z2-7]{26}","object":"chat.completion.chunk","created":\d+`)

// split returns the events of a stream.
func split(stream string) []string {
	var out []string
	for stream != "" {
		end := len(stream)
		for _, blank := range []string{"\n\n", "\n\r\n"} {
			if i := strings.Index(stream, blank); i >= 0 {
				end = min(end, i+len(blank))
			}
		}
		out = append(out, stream[:end])
		stream = stream[end:]
	}
	return out
}

func TestFramingIsKept(t *testing.T) {
	const stream = ": hello\r\n\r\n" +
		"id: 1\r\ndata:{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n" +
		"event: x\ndata: {\"choices\":[\ndata: {\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data:\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"b\",\"tool_calls\":[" +
		"{\"id\":\"c\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n" +
		"data: [DONE]\n"
	require.Equal(t, stream, apply(t, stream, ""))

	changed := apply(t, stream, "finish stop")
	require.Equal(t, strings.Replace(stream, `"finish_reason":"tool_calls"`, `"finish_reason":"stop"`, 1),
		joinSplit(changed), "only the finish reason may change")
}

// joinSplit replaces the events of the last chunk of TestFramingIsKept with one.
func joinSplit(stream string) string {
	i := strings.Index(stream, `data: {"choices":[{"index":0`)
	return stream[:i] + "data: {\"choices\":[{\"delta\":{\"content\":\"b\",\"tool_calls\":[" +
		"{\"id\":\"c\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: [DONE]\n"
}

func TestDecodeRejects(t *testing.T) {
	chunk := func(delta string) string { return `data: {"choices":[{"index":0,"delta":` + delta + `}]}` + "\n\n" }
	call := func(fields string) string { return chunk(`{"tool_calls":[{` + fields + `}]}`) }
	first := call(`"index":0,"id":"a","function":{"name":"f","arguments":"{"}`)
	second := call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`)
	finish := "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	for name, c := range map[string]struct{ stream, want string }{
		"interleaved calls":        {first + second + call(`"index":0,"function":{"arguments":"}"}`), "continued one that had ended"},
		"an ID twice":              {first + call(`"index":1,"id":"a","function":{"name":"f"}`), "two tool calls"},
		"another name":             {first + call(`"index":0,"function":{"name":"rm"}`), "changed the tool"},
		"custom within function":   {first + call(`"index":0,"custom":{"input":"x"}`), "changed the tool"},
		"both kinds":               {call(`"id":"a","function":{"name":"f"},"custom":{"name":"g"}`), "both"},
		"no name":                  {call(`"index":0,"id":"a","function":{"arguments":"{}"}`), "without an id or a name"},
		"arguments as an object":   {call(`"id":"a","function":{"name":"f","arguments":{}}`), "no string"},
		"an ID that is a number":   {first + call(`"index":0,"id":5,"function":{"arguments":"}"}`), "id must be a string"},
		"a name that is a number":  {call(`"id":"a","function":{"name":5}`), "name must be a string"},
		"a call that is a number":  {chunk(`{"tool_calls":[5]}`), "no object"},
		"a huge index":             {call(`"index":99999999,"id":"a","function":{"name":"f"}`), "index"},
		"a call of a function":     {chunk(`{"function_call":{"name":"f"}}`), "cannot judge"},
		"calls that are no list":   {chunk(`{"tool_calls":{}}`), "no array"},
		"parts with text":          {chunk(`{"content":[{"type":"text","text":"x"}]}`), "no string"},
		"reasoning as an object":   {chunk(`{"reasoning":{}}`), "no string"},
		"two choices":              {"data: {\"choices\":[{},{}]}\n\n", "2 choices"},
		"another choice":           {"data: {\"choices\":[{\"index\":1}]}\n\n", "choice 1"},
		"a message":                {"data: {\"choices\":[{\"message\":{}}]}\n\n", "instead of a delta"},
		"content after the end":    {finish + chunk(`{"content":"x"}`), "after its finish_reason"},
		"an event after the end":   {"data: [DONE]\n\n" + chunk(`{"content":"x"}`), "after the end"},
		"duplicate names":          {chunk(`{"content":"x","content":"y"}`), "duplicate"},
		"a delta in another case":  {"data: {\"choices\":[{\"Delta\":{}}]}\n\n", "delta of"},
		"calls in another case":    {chunk(`{"Tool_calls":[]}`), "tool_calls of"},
		"a name in another case":   {call(`"id":"a","function":{"name":"f","NAME":"g"}`), "name of"},
		"many calls":               {chunk(`{"tool_calls":[` + strings.Repeat("{},", maxBlocks) + `{}]}`), "more than 10000"},
		"no JSON":                  {"data: x\n\n", "not valid"},
		"a line without a field":   {" data: {}\n\n", "no field"},
		"a mark at the start":      {"\uFEFFdata: {}\n\n", "no field"},
		"two events in one":        {"data: {}\n\ndata: {}\n\n", "two events"},
		"a lone carriage return":   {"data: {}\rdata: {}\n\n", "carriage return"},
		"an error of upstream":     {"data: {\"error\":{\"message\":\"overloaded\"}}\n\n", "overloaded"},
		"a finish that is no text": {"data: {\"choices\":[{\"finish_reason\":{}}]}\n\n", "finish_reason"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Protocol{}.NewStream("m")
			var err error
			events := split(c.stream)
			if name == "two events in one" {
				events = []string{c.stream}
			}
			for _, event := range events {
				require.NoError(t, err)
				_, err = s.Decode([]byte(event))
			}
			require.ErrorContains(t, err, c.want)
			var failure *wire.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, wire.CodeUpstream, failure.Code)
		})
	}
}

func TestBlocksAreBounded(t *testing.T) {
	s := Protocol{}.NewStream("m")
	var err error
	for i := 0; err == nil; i++ {
		name := []string{"content", "reasoning"}[i%2]
		_, err = s.Decode([]byte(`data: {"choices":[{"delta":{"` + name + `":"x"}}]}` + "\n\n"))
		require.Less(t, i, maxBlocks+1)
	}
	require.ErrorContains(t, err, "more than 10000 blocks")
}

func TestResponse(t *testing.T) {
	s := Protocol{}.NewStream("m")
	for _, event := range split(
		`data: {"choices":[{"delta":{"role":"assistant","reasoning":"why"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"Hi"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom",` +
			`"custom":{"name":"exec","input":"say \"hi\""}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":"\n"}}]}}]}` + "\n\n") {
		_, err := s.Decode([]byte(event))
		require.NoError(t, err)
	}
	require.False(t, s.Complete(), "a stream without a finish reason was cut")
	_, err := s.Decode([]byte(`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\n"))
	require.NoError(t, err)
	require.True(t, s.Complete())
	call := abi.NewToolCall("a", "exec", `{"input":"say \"hi\"\n"}`)
	call.Type = "custom"
	require.Equal(t, &abi.Response{
		Message: abi.Message{
			Role: abi.RoleAssistant, Content: abi.Text("Hi"), ReasoningContent: "why", ToolCalls: []abi.ToolCall{call},
		},
		FinishReason: abi.FinishToolCalls,
		Usage:        &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3},
	}, s.Response())
}

// FuzzStream checks that a stream keeps its bytes if nothing changes it, that the items of an event
// together have the effect of the event, and that changed streams can be read.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(f, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(f, err)
		f.Add(string(a.Files[0].Data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &stream{model: "m"} // passes each item
		changed := &stream{}     // writes each delta as changed text
		var whole, other, apart []byte
		var open wire.Item
		var ends []wire.Item
		var read int
		for _, event := range split(text) {
			items, err := s.Decode([]byte(event))
			if err != nil {
				break
			}
			read += len(event)
			_, err = changed.Decode([]byte(event))
			require.NoError(t, err)
			for i := range items {
				it := &items[i]
				apart = append(apart, it.Event...)
				if it.Kind == wire.End {
					ends = append(ends, *it)
					continue
				}
				whole = s.Pass(whole, it)
				switch it.Kind {
				case wire.Open:
					open = *it
					other = changed.Pass(other, it)
				case wire.Delta:
					other = changed.Text(other, &open, it.Chunk.Text+it.Chunk.Arguments)
				case wire.Close:
					if c := s.blocks[it.Block].call; c != nil {
						other = changed.CloseText(other, &open, c.arguments.String())
					}
				default:
					other = changed.Pass(other, it)
				}
			}
		}
		if len(ends) > 0 {
			whole, other = s.End(whole, ends, ""), changed.End(other, ends, "")
		}
		whole, other = s.flush(whole), changed.flush(other)
		renumbered := slices.ContainsFunc(s.blocks, func(b *block) bool {
			return b.call != nil && b.index != b.call.index
		})
		if !renumbered {
			require.Equal(t, text[:read], string(whole))
		}
		want := s.Response()
		for _, out := range [][]byte{whole, other, apart} {
			if string(out) == string(other) && s.open != nil && s.open.call != nil && s.open.call.custom {
				continue // the input of a custom tool is written when its block ends
			}
			got := responseOf(t, string(out))
			require.Equal(t, want, got)
		}
	})
}

func responseOf(t *testing.T, text string) *abi.Response {
	t.Helper()
	s := &stream{}
	for _, event := range split(text) {
		_, err := s.Decode([]byte(event))
		require.NoError(t, err, "%s", event)
	}
	return s.Response()
}

// TestChoicesOfOtherTypes checks that the codec rejects events whose field choices has a type that some
// clients accept.
func TestChoicesOfOtherTypes(t *testing.T) {
	for _, choices := range []string{
		`{"0":{"delta":{"tool_calls":[{"id":"c1"}]}}}`, `"x"`, `[[]]`, `["x"]`, `[{"delta":[{"tool_calls":[]}]}]`,
	} {
		_, err := Protocol{}.NewStream("m").Decode([]byte("data: {\"choices\":" + choices + "}\n\n"))
		require.Error(t, err, choices)
	}
}
