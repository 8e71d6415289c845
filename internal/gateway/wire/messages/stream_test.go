package messages

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
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
			got := madeID.ReplaceAllString(received(t, upstream, changes), `"${1}_NEW"`)
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

// madeID matches IDs that the gateway makes.
var madeID = regexp.MustCompile(`"(msg|toolu)_[A-Z2-7]{26}"`)

// changes has the changes of a stream by modules and gates.
type changes struct {
	drop   map[int]string // blocks that are not passed, and the text in their place
	texts  map[int]string // blocks with another text
	before string         // text before the answer
	calls  []abi.ToolCall // calls after the answer
	finish string
}

// parseChanges reads changes, one a line:
//
//	drop N          block N is not passed
//	deny N TEXT     block N is a call that becomes TEXT
//	text N TEXT     the whole text of block N, or the call's arguments, become TEXT
//	before TEXT     TEXT is a block before the answer
//	call NAME ARGS  a call is added at the end
//	finish REASON   the finish reason changes
func parseChanges(t *testing.T, lines string) *changes {
	c := &changes{drop: map[int]string{}, texts: map[int]string{}}
	for line := range strings.Lines(lines) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		first, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(first)
		switch verb {
		case "drop", "deny":
			c.drop[n] = text
		case "text":
			c.texts[n] = text
		case "before":
			c.before = rest
		case "call":
			c.calls = append(c.calls, abi.NewToolCall("", first, text))
		case "finish":
			c.finish = rest
		default:
			require.FailNow(t, "unknown change", line)
		}
	}
	return c
}

// received passes a stream through the codec with the given changes, and returns what the client receives.
func received(t *testing.T, upstream, lines string) string {
	c := parseChanges(t, lines)
	s := Protocol{}.NewStream("model-1")
	out := s.AddText(nil, abi.ChunkText, c.before)
	opens := map[int]*wire.Item{}
	var ends []wire.Item
	for _, event := range split(upstream) {
		items, err := s.Decode([]byte(event))
		if err != nil {
			return string(s.Error(out, err.(*wire.Error))) //nolint:errorlint // the codec returns this type
		}
		for i := range items {
			it := &items[i]
			switch it.Kind {
			case wire.End:
				ends = append(ends, *it)
				continue
			case wire.Open:
				opens[it.Block] = it
			case wire.Other, wire.Ping:
				out = s.Pass(out, it)
				continue
			}
			out = c.item(s, out, it, opens[it.Block])
		}
	}
	if upstream != "" && !s.Complete() {
		return string(s.Error(out, wire.Errorf(wire.CodeUpstream, "the upstream's answer was cut off")))
	}
	for i := range c.calls {
		out = s.AddCall(out, &c.calls[i])
	}
	return string(s.End(out, ends, c.finish))
}

// item appends the client's events for an item of the block that open begins.
func (c *changes) item(s wire.Stream, out []byte, it, open *wire.Item) []byte {
	message, dropped := c.drop[it.Block]
	text, changed := c.texts[it.Block]
	switch {
	case dropped && it.Kind == wire.Open:
		s.Drop(it)
		return s.AddText(out, abi.ChunkText, message)
	case dropped, changed && it.Kind == wire.Delta:
		return out
	case changed && it.Kind == wire.Close:
		return s.CloseText(s.Text(out, open, text), open, text)
	}
	return s.Pass(out, it)
}

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

// TestStreamResponse checks the message that modules see after a stream.
func TestStreamResponse(t *testing.T) {
	a, err := txtar.ParseFile("testdata/streams/call-unchanged.txtar")
	require.NoError(t, err)
	s := Protocol{}.NewStream("")
	for _, event := range split(string(a.Files[0].Data)) {
		require.False(t, s.Complete())
		_, err := s.Decode([]byte(event))
		require.NoError(t, err)
	}
	require.True(t, s.Complete())
	got, err := json.Marshal(s.Response())
	require.NoError(t, err)
	require.JSONEq(
		t,
		`{"message":{"role":"assistant","content":[{"type":"thinking","thinking":"Let me look.","signature":"c2lnbmVk"},
	  {"type":"text","text":"Looking."}],
	 "tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":"{\"command\": \"ls\"}"}}]},
	 "finish_reason":"tool_calls","usage":{"prompt_tokens":15,"completion_tokens":5,"total_tokens":20}}`,
		string(got),
	)
}

// TestItems checks the items of a stream: modules see text and calls, but neither reasoning nor calls
// that the upstream runs.
func TestItems(t *testing.T) {
	a, err := txtar.ParseFile("testdata/streams/server-tool-denied.txtar")
	require.NoError(t, err)
	s := Protocol{}.NewStream("")
	var kinds []wire.ItemKind
	var chunks []abi.Chunk
	for _, event := range split(string(a.Files[0].Data)) {
		items, err := s.Decode([]byte(event))
		require.NoError(t, err)
		for _, it := range items {
			kinds = append(kinds, it.Kind)
			if it.Chunk.Kind != "" {
				chunks = append(chunks, it.Chunk)
			}
		}
	}
	const o = wire.Other
	require.Equal(t, []wire.ItemKind{o, o, o, o, o, o, wire.Open, wire.Delta, wire.Close, wire.End, wire.End}, kinds)
	require.Equal(t, []abi.Chunk{
		{Kind: abi.ChunkToolCall, ID: "toolu_1", Name: "Bash"},
		{Kind: abi.ChunkToolCall, Arguments: "{}"},
	}, chunks)
}

func TestDecodeRejects(t *testing.T) {
	const start = `data: {"type":"message_start","message":{"content":[]}}` + "\n\n"
	block := func(block string) string {
		return start + `data: {"type":"content_block_start","index":0,"content_block":` + block + "}\n\n"
	}
	text, call := block(`{"type":"text","text":""}`), block(`{"type":"tool_use","id":"a","name":"b","input":{}}`)
	delta := func(delta string) string {
		return `data: {"type":"content_block_delta","index":0,"delta":` + delta + "}\n\n"
	}
	for name, c := range map[string]struct{ stream, want string }{
		"no JSON":              {"data: x\n\n", "invalid JSON"},
		"no type":              {"data: {}\n\n", "type: must be"},
		"another name":         {"event: ping\n" + start, "differs from the name"},
		"a carriage return":    {"data: {}\rdata: {}\n\n", "carriage return"},
		"two names":            {"event: ping\nevent: message_start\n" + start, "two names"},
		"no field":             {" data: {}\n\n", "no field of an event"},
		"a mark at the start":  {"\uFEFF" + start, "no field of an event"},
		"two starts":           {start + start, "it comes twice"},
		"content at the start": {`data: {"type":"message_start","message":{"content":[{}]}}` + "\n\n", "must be empty"},
		"Content at the start": {`data: {"type":"message_start","message":{"Content":[{}]}}` + "\n\n", "must be written as"},
		"Text in a delta":      {text + delta(`{"type":"text_delta","text":"x","Text":"y"}`), "must be written as"},
		"Type of a block":      {block(`{"type":"x","Type":"tool_use"}`), "must be written as"},
		"Delta":                {`data: {"type":"ping","Delta":{}}` + "\n\n", "must be written as"},
		"a block at first":     {`data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}` + "\n\n", "out of order"},
		"a gap":                {start + `data: {"type":"content_block_start","index":1,"content_block":{"type":"text"}}` + "\n\n", "out of order"},
		"an index as 0.0":      {start + `data: {"type":"content_block_start","index":0.0,"content_block":{"type":"text"}}` + "\n\n", "index: must be"},
		"no index":             {start + `data: {"type":"content_block_start","content_block":{"type":"text"}}` + "\n\n", "index: must be"},
		"no block":             {block(`null`), "content_block.type"},
		"a call without ID":    {block(`{"type":"tool_use","name":"b","input":{}}`), "content_block.id"},
		"the same call twice":  {call + strings.Replace(strings.TrimPrefix(call, start), `"index":0`, `"index":1`, 1), "two calls"},
		"a delta of nothing":   {start + delta(`{"type":"text_delta","text":"x"}`), "not open"},
		"text in a call":       {call + delta(`{"type":"text_delta","text":"x"}`), "does not belong"},
		"text in reasoning":    {block(`{"type":"thinking"}`) + delta(`{"type":"text_delta","text":"x"}`), "does not belong"},
		"arguments in text":    {text + delta(`{"type":"input_json_delta","partial_json":"x"}`), "does not belong"},
		"reasoning in text":    {text + delta(`{"type":"thinking_delta","thinking":"x"}`), "does not belong"},
		"text that is none":    {text + delta(`{"type":"text_delta","text":1}`), "must be a string"},
		"more arguments": {
			block(`{"type":"tool_use","id":"a","name":"b","input":{"x":1}}`) + delta(`{"type":"input_json_delta","partial_json":"x"}`),
			"does not belong",
		},
		"an end within a block": {text + `data: {"type":"message_stop"}` + "\n\n", "ends within a block"},
		"a block after the end": {
			start + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n" + strings.TrimPrefix(text, start),
			"out of order",
		},
		"two ends": {start + strings.Repeat(`data: {"type":"message_stop"}`+"\n\n", 2), "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Protocol{}.NewStream("")
			var err error
			for _, event := range split(c.stream) {
				require.NoError(t, err, "only the last event is wrong")
				_, err = s.Decode([]byte(event))
			}
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeUpstream, e.Code)
			require.Contains(t, e.Message, c.want)
			require.Equal(t, name == "two ends", s.Complete())
		})
	}
}

func TestTooMuchText(t *testing.T) {
	s := Protocol{}.NewStream("")
	events := []string{
		`{"type":"message_start","message":{}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`,
	}
	delta := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + strings.Repeat(
		"x",
		1<<20,
	) + `"}}`
	for range maxAnswer >> 20 {
		events = append(events, delta)
	}
	for _, data := range events {
		_, err := s.Decode([]byte("data: " + data + "\n\n"))
		require.NoError(t, err)
	}
	_, err := s.Decode([]byte("data: " + delta + "\n\n"))
	require.ErrorContains(t, err, "the answer is too large")
}

// FuzzStream checks that a stream keeps its bytes if nothing changes it, and that the client's stream
// is valid after any changes: it has the changed text and no denied call.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(f, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(f, err)
		f.Add(a.Files[0].Data, "x", uint8(5))
	}
	f.Fuzz(func(t *testing.T, upstream []byte, text string, change uint8) {
		s := Protocol{}.NewStream("m")
		var ends []wire.Item
		var read, out []byte
		divided := false
		for _, event := range split(string(upstream)) {
			list, err := s.Decode([]byte(event))
			if err != nil {
				break
			}
			read = append(read, event...)
			divided = divided || len(list) > 1
			for _, it := range list {
				out = s.Pass(out, &it)
			}
		}
		if !divided {
			require.Equal(t, string(read), string(out), "an unchanged stream must keep its bytes")
		}
		_ = s.Response()
		if !s.Complete() {
			return
		}

		c := &changes{drop: map[int]string{}, texts: map[int]string{}}
		s, out = Protocol{}.NewStream("m"), nil
		opens := map[int]*wire.Item{}
		for _, event := range split(string(read)) {
			list, err := s.Decode([]byte(event))
			require.NoError(t, err)
			for i := range list {
				it := &list[i]
				switch it.Kind {
				case wire.End:
					ends = append(ends, *it)
				case wire.Other, wire.Ping:
					out = s.Pass(out, it)
				case wire.Open:
					opens[it.Block] = it
					c.choose(it, text, change)
					fallthrough
				default:
					out = c.item(s, out, it, opens[it.Block])
				}
			}
		}
		out = s.End(out, ends, "")
		checkStream(t, c, out)
	})
}

// choose changes the block that open begins: each bit of change is for one of eight blocks. A call is
// denied, text is changed.
func (c *changes) choose(open *wire.Item, text string, change uint8) {
	switch {
	case change>>(open.Block%8)&1 == 0:
	case open.Chunk.Kind == abi.ChunkToolCall:
		c.drop[open.Block] = "denied"
	default:
		c.texts[open.Block] = text
	}
}

// checkStream checks a stream for a client.
func checkStream(t *testing.T, c *changes, out []byte) {
	s := Protocol{}.NewStream("m")
	for _, event := range split(string(out)) {
		_, err := s.Decode([]byte(event))
		require.NoError(t, err, "%q", event)
	}
	require.True(t, s.Complete())
	res := s.Response()
	all := res.Message.Content.String()
	for _, text := range c.texts {
		require.Contains(t, all, strings.ToValidUTF8(text, "\uFFFD"))
	}
	require.Len(t, regexp.MustCompile("denied").FindAllString(all, len(c.drop)), len(c.drop))
	if len(res.Message.ToolCalls) == 0 && len(c.drop) > 0 {
		require.NotEqual(t, abi.FinishToolCalls, res.FinishReason)
	}
}

// TestThroughWeaver checks that a stream keeps its bytes after a chain that changes nothing.
func TestThroughWeaver(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*-unchanged.txtar")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			s := Protocol{}.NewStream("")
			w := weave.New(s, weave.Options{})
			var out []byte
			for _, event := range split(string(a.Files[0].Data)) {
				items, err := s.Decode([]byte(event))
				require.NoError(t, err)
				var chunks []abi.Chunk
				out, chunks, err = w.Receive(out, items)
				require.NoError(t, err)
				out = w.Leave(out, chunks)
			}
			out, err = w.Finish(out, s.Response(), nil)
			require.NoError(t, err)
			require.Equal(t, string(a.Files[0].Data), string(out))
		})
	}
}
