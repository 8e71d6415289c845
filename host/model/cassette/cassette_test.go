package cassette_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func record(t *testing.T, replies ...scripted.Reply) (model.Model, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conversation.json")
	r, err := cassette.NewRecorder(path, scripted.New(replies...))
	require.NoError(t, err)
	return r, path
}

func collect(chunks *[]abi.Chunk) func(abi.Chunk) error {
	return func(c abi.Chunk) error {
		*chunks = append(*chunks, c)
		return nil
	}
}

var now = abi.Tool{
	Name:        "now",
	Description: "the time",
	Parameters:  json.RawMessage(`{"type":"object"}`),
	Owner:       "host",
	Idempotent:  true,
}

// conversation returns the requests of an agent with three steps.
func conversation(t *testing.T) []*model.Request {
	t.Helper()
	user := abi.User("What time\nis it?")
	user.ID, user.Origin, user.Extra = "m1", abi.OriginUser, json.RawMessage(`{"secret":1}`)
	call := abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("c1", "now", "{}")}}
	call.ID, call.Origin = "m2", abi.OriginModel
	result := abi.ToolMessage("c1", "now", abi.Text("noon"))
	var odd abi.Message
	require.NoError(
		t,
		json.Unmarshal([]byte(`{"role":"user","content":[{"type":"video","fps":30.0}],"mood":"<calm>"}`), &odd),
	)
	params := abi.Params{"temperature": json.RawMessage("0")}
	return []*model.Request{
		{Model: "big", Messages: []abi.Message{abi.System("Be brief."), user}, Tools: []abi.Tool{now}, Params: params},
		{
			Model:    "big",
			Messages: []abi.Message{abi.System("Be brief."), user, call, result},
			Tools:    []abi.Tool{now},
			Params:   params,
		},
		{Model: "big", Messages: []abi.Message{abi.System("Be kind."), odd}},
	}
}

func replies() []scripted.Reply {
	say := scripted.Text("It is noon.")
	say.Size, say.Response.Usage = 4, &abi.Usage{PromptTokens: 5, CompletionTokens: 3, TotalTokens: 8}
	return []scripted.Reply{
		scripted.Calls(abi.NewToolCall("c1", "now", "{}")), say,
		{
			Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: "I"}},
			Err:    &model.Error{Code: abi.CodeModel, Message: "busy", Status: 503, Retryable: true, RetryAfter: time.Second},
		},
	}
}

// TestRecordAndReplay checks that a replay gives the recorded answers, chunks and errors, whatever
// the model's name and the host's internal fields, and checks the text of the file.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	r, path := record(t, replies()...)
	var recorded [3][]abi.Chunk
	for i, req := range conversation(t) {
		_, err := r.Generate(t.Context(), req, collect(&recorded[i]))
		require.Equal(t, i == 2, err != nil)
	}
	require.Equal(t, `{
  "version": 1,
  "interactions": [
    {
      "model": "big",
      "messages": [
        {"role":"system","content":"Be brief."},
        {"role":"user","content":"What time\nis it?"}
      ],
      "tools": [
        {"name":"now","description":"the time","parameters":{"type":"object"}}
      ],
      "params": {"temperature":0},
      "chunks": [
        {"kind":"tool_call","index":0,"id":"c1","name":"now","arguments":"{}"}
      ],
      "response": {"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}
    },
    {
      "model": "big",
      "same": 2,
      "messages": [
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":"{}"}}]},
        {"role":"tool","content":"noon","name":"now","tool_call_id":"c1"}
      ],
      "same_tools": true,
      "params": {"temperature":0},
      "chunks": [
        {"kind":"text","text":"It i"},
        {"kind":"text","text":"s no"},
        {"kind":"text","text":"on."}
      ],
      "response": {"message":{"role":"assistant","content":"It is noon."},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}
    },
    {
      "model": "big",
      "messages": [
        {"role":"system","content":"Be kind."},
        {"role":"user","content":[{"type":"video","fps":30.0}],"mood":"<calm>"}
      ],
      "chunks": [
        {"kind":"text","text":"I"}
      ],
      "error": {"code":"model","message":"busy","retryable":true,"status":503,"retry_after_ms":1000}
    }
  ]
}
`, read(t, path))

	c, err := cassette.Load(path)
	require.NoError(t, err)
	require.Equal(t, 3, c.Replay().Left())
	for range 2 { // each replay starts at the first interaction
		play := c.Replay()
		for i, req := range conversation(t) {
			require.Equal(t, 3-i, play.Left())
			req.Model = "another"
			req.Messages[0].ID, req.Messages[0].Origin = "x", "module:y"
			var chunks []abi.Chunk
			res, err := play.Generate(t.Context(), req, collect(&chunks))
			require.Equal(t, recorded[i], chunks)
			if i == 2 {
				require.Equal(t, replies()[2].Err, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, replies()[i].Response, res)
		}
		_, err := play.Generate(t.Context(), conversation(t)[0], nil)
		require.EqualError(
			t,
			err,
			path+": the recording has only 3 interactions, and the agent called the model once more; record the conversation again, or find out why it is longer",
		)
		var d *cassette.DivergedError
		require.ErrorAs(t, err, &d)
		require.Equal(t, 4, d.Interaction)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no other file is left")
}

func TestNotStreamed(t *testing.T) {
	t.Parallel()
	r, path := record(t, scripted.Text("hello"))
	req := &model.Request{Messages: []abi.Message{abi.User("hi")}}
	_, err := r.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.NotContains(t, read(t, path), "chunks")
	c, err := cassette.Load(path)
	require.NoError(t, err)
	var chunks []abi.Chunk
	_, err = c.Replay().Generate(t.Context(), req, collect(&chunks))
	require.NoError(t, err)
	require.Equal(t, []abi.Chunk{{Kind: abi.ChunkText, Text: "hello"}}, chunks)
}

func TestWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	r, path := record(t, scripted.Reply{Hang: true}, scripted.Text("a"), scripted.Reply{Err: errors.New("odd")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Generate(ctx, &model.Request{}, nil)
	require.ErrorIs(t, err, context.Canceled)
	full := errors.New("full")
	_, err = r.Generate(t.Context(), &model.Request{}, func(abi.Chunk) error { return full })
	require.Same(t, full, err)
	_, err = r.Generate(t.Context(), &model.Request{}, nil)
	require.EqualError(t, err, "odd")
	require.NoFileExists(t, path)
}

func TestRecorderAndItsFile(t *testing.T) {
	t.Parallel()
	_, err := cassette.NewRecorder(filepath.Join(t.TempDir(), "no", "folder"), scripted.New())
	require.ErrorContains(t, err, "record to")
	_, err = cassette.NewRecorder(t.TempDir(), scripted.New())
	require.ErrorContains(t, err, "not a regular file")

	path := filepath.Join(t.TempDir(), "old.json")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	r, err := cassette.NewRecorder(path, scripted.New(scripted.Text("a"), scripted.Text("b")))
	require.NoError(t, err)
	require.Equal(t, "old", read(t, path), "the old file stays until it is replaced")
	_, err = r.Generate(t.Context(), &model.Request{}, nil)
	require.NoError(t, err)
	c, err := cassette.Load(path)
	require.NoError(t, err)
	require.Equal(t, 1, c.Replay().Left())

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	_, err = r.Generate(t.Context(), &model.Request{}, nil)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, abi.CodeInternal, e.Code)
	require.Contains(t, e.Message, "cannot be recorded in "+path)
}

func TestRecordAtTheSameTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	r, err := cassette.NewRecorder(
		path,
		scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("a") }),
	)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := r.Generate(context.Background(),
				&model.Request{Messages: []abi.Message{abi.User("hi")}}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := cassette.Load(path)
	require.NoError(t, err)
	require.Equal(t, 8, c.Replay().Left())
}

// TestDiverged checks the position and the diff of the error for a request that differs from the
// recorded one, and that such a request does not consume the interaction.
func TestDiverged(t *testing.T) {
	t.Parallel()
	r, path := record(t, replies()...)
	for _, req := range conversation(t) {
		_, _ = r.Generate(t.Context(), req, nil)
	}
	long := strings.Repeat("word ", 60)
	for name, tc := range map[string]struct {
		interaction int // zero-based
		change      func(*model.Request)
		path        string
		diff        string
	}{
		"content": {1, func(r *model.Request) { r.Messages[3].Content = abi.Text("midnight") }, "messages[3].content", `--- recorded
+++ this run
  messages[3].role: "tool"
  messages[3].name: "now"
  messages[3].tool_call_id: "c1"
- messages[3].content: "noon"
+ messages[3].content: "midnight"
  tools[0].name: "now"
  tools[0].description: "the time"
  tools[0].parameters.type: "object"`},
		"one line of a text": {0, func(r *model.Request) { r.Messages[1].Content = abi.Text("What time\nwas it?") }, "messages[1].content", `--- recorded
+++ this run
  messages[0].content: "Be brief."
  messages[1].role: "user"
  messages[1].content: "What time\n"
- messages[1].content: "is it?"
+ messages[1].content: "was it?"
  tools[0].name: "now"
  tools[0].description: "the time"
  tools[0].parameters.type: "object"`},
		"one message more": {0, func(r *model.Request) { r.Messages = append(r.Messages, abi.User(long)) }, "messages[2]", "differs at messages[2], which is not in the recording\n"},
		"one message less": {1, func(r *model.Request) { r.Messages = r.Messages[:3] }, "messages[3]", "differs at messages[3], which is missing\n"},
		"nothing":          {0, func(r *model.Request) { r.Messages = nil }, "messages[0]", `- messages[0].role: "system"`},
		"arguments":        {1, func(r *model.Request) { r.Messages[2].ToolCalls = []abi.ToolCall{abi.NewToolCall("c1", "now", "{ }")} }, "messages[2].tool_calls[0].function.arguments", `+ messages[2].tool_calls[0].function.arguments: "{ }"`},
		"unknown field": {0, func(r *model.Request) {
			r.Messages[0].Unknown = abi.Fields{{Name: "a.b", Value: json.RawMessage("1.0")}}
		}, `messages[0]["a.b"]`, `+ messages[0]["a.b"]: 1.0`},
		"null and empty":   {1, func(r *model.Request) { r.Messages[2].Content = abi.Text("") }, "messages[2].content", `- messages[2].content: null`},
		"tool description": {0, func(r *model.Request) { r.Tools = []abi.Tool{{Name: "now"}} }, "tools[0].description", `- tools[0].parameters.type: "object"`},
		"another tool":     {0, func(r *model.Request) { r.Tools = append(r.Tools, abi.Tool{Name: "later"}) }, "tools[1]", `+ tools[1].name: "later"`},
		"everything":       {0, func(r *model.Request) { r.Messages = []abi.Message{abi.User(strings.Repeat(long, 50))} }, "messages[0].role", "lines more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := cassette.Load(path)
			require.NoError(t, err)
			play := c.Replay()
			var req *model.Request
			for i, r := range conversation(t)[:tc.interaction+1] {
				if req = r; i < tc.interaction {
					_, err := play.Generate(t.Context(), r, nil)
					require.NoError(t, err)
				}
			}
			req.Messages = append([]abi.Message(nil), req.Messages...)
			tc.change(req)
			_, err = play.Generate(t.Context(), req, nil)
			var d *cassette.DivergedError
			require.ErrorAs(t, err, &d)
			require.Equal(t, tc.interaction+1, d.Interaction)
			require.Equal(t, tc.path, d.Path)
			require.Contains(t, err.Error(), path+": the conversation has left the recording: interaction ")
			require.Contains(t, err.Error(), tc.diff)
			require.Less(t, strings.Count(err.Error(), "\n"), 100)
			var e *model.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.Retryable)

			_, err = play.Generate(t.Context(), conversation(t)[tc.interaction], nil)
			require.Equal(t, tc.interaction == 2, err != nil, "the interaction waits for its request")
		})
	}
}

func TestReplayEndsEarly(t *testing.T) {
	t.Parallel()
	c, err := cassette.Parse("c", []byte(`{"version":1,"interactions":[{"response":{"message":{"content":"a"}}}]}`))
	require.NoError(t, err)
	full := errors.New("full")
	_, err = c.Replay().Generate(t.Context(), &model.Request{}, func(abi.Chunk) error { return full })
	require.Same(t, full, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Replay().Generate(ctx, &model.Request{}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestByHand(t *testing.T) {
	t.Parallel()
	c, err := cassette.Parse("c", []byte(`{"version": 1, "interactions": [
		{"messages": [{"role": "user", "content": "hi"}],
			"response": {"message": {"tool_calls": [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]}}},
		{"same": 1, "response": {"message": {"content": "a"}}}
	]}`))
	require.NoError(t, err)
	play := c.Replay()
	req := &model.Request{Messages: []abi.Message{abi.User("hi")}}
	res, err := play.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, abi.RoleAssistant, res.Message.Role)
	require.Equal(t, abi.FinishToolCalls, res.FinishReason)
	res, err = play.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, abi.FinishStop, res.FinishReason)
}

func TestBroken(t *testing.T) {
	t.Parallel()
	const begin = "{\n\"version\": 1,\n\"interactions\": [\n"
	const good = `{"messages":[{"role":"user","content":"a"}],"response":{"message":{"content":"b"}}}` + ",\n"
	for name, tc := range map[string]struct{ in, want string }{
		"empty":             {"", "c.json:1: not a cassette: empty"},
		"not JSON":          {"{\n\"version\" 1}", "c.json:2: not a cassette: version: want : after a key"},
		"cut":               {begin + good, "c.json:5: not a cassette: "},
		"array":             {"[]", "c.json:1: not a cassette: want an object, got an array"},
		"no version":        {"{}", "version 0 is not known; this program reads version 1"},
		"later version":     {"{\n\n\"version\": 2}", "c.json:3: not a cassette: version 2 is not known"},
		"unknown key":       {"{\n\"version\": 1,\n\"title\": 1}", `c.json:3: not a cassette: unknown key "title"; want version and interactions`},
		"null":              {`{"version":1,"interactions":[null]}`, "needs a response or an error"},
		"key":               {begin + good + "{\n\"response\": {},\n\"mesages\": []}]}", `c.json:7: not a cassette: unknown key "mesages"`},
		"inner key":         {begin + good + "{\n\"response\": {\n\"finish\": 1}}]}", `c.json:7: not a cassette: unknown key "response.finish"`},
		"type":              {begin + good + "{\n\"response\": {\n\"message\": 7}}]}", "c.json:7: not a cassette: response.message: want an object, got a number"},
		"content":           {begin + good + "{\"response\":{\"message\":{\"content\":7}}}]}", "c.json:5: not a cassette: "},
		"neither":           {begin + good + "{}]}", "c.json:5: not a cassette: an interaction needs a response or an error"},
		"both":              {begin + "{\"response\":{},\"error\":{\"code\":\"model\"}}]}", "c.json:4: not a cassette: an interaction needs"},
		"same at first":     {begin + "{\"same\":1,\"response\":{}}]}", `c.json:4: not a cassette: "same": 1, but`},
		"too much the same": {begin + good + "{\n\"same\":2,\"response\":{}}]}", `c.json:6: not a cassette: "same": 2, but`},
		"negative":          {begin + good + "{\"same\":-1,\"response\":{}}]}", `"same": -1`},
		"same tools":        {begin + "{\"same_tools\":true,\"response\":{}}]}", `"same_tools" takes the place`},
		"chunk":             {begin + good + "{\n\"chunks\":[{\"kind\":\"text\"},{\"kind\":\"x\"}],\"response\":{}}]}", `c.json:6: not a cassette: chunks[1]: unknown kind of chunk "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := cassette.Parse("c.json", []byte(tc.in))
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := cassette.Load(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.json")
}

// TestSameIsBounded checks that Parse limits the total number of messages, since "same" expands a
// few bytes to many messages.
func TestSameIsBounded(t *testing.T) {
	t.Parallel()
	messages := strings.Repeat(`{"role":"user"},`, 9_999) + `{"role":"user"}`
	doc := `{"version":1,"interactions":[{"messages":[` + messages + `],"response":{}}` + strings.Repeat(
		`,{"same":10000,"response":{}}`,
		200,
	) + `]}`
	_, err := cassette.Parse("c", []byte(doc))
	require.ErrorContains(t, err, "messages together")
}

// FuzzParse checks that a cassette that parses can be replayed, and that a recording of the
// replay answers the same requests.
func FuzzParse(f *testing.F) {
	f.Add(
		[]byte(
			`{"version":1,"interactions":[{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","parameters":{}}],"params":{"seed":1},"chunks":[{"kind":"text","text":"a"}],"response":{"message":{"content":"a"},"usage":{"total_tokens":1}}},{"same":1,"same_tools":true,"messages":[{"role":"tool","content":[{"type":"x"}],"tool_call_id":"c"}],"error":{"code":"model","message":"busy"}}]}`,
		),
	)
	f.Add([]byte(`{"interactions":null,"version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := cassette.Parse("c.json", b)
		if err != nil {
			require.Regexp(t, `^c\.json:\d+: not a cassette: `, err.Error())
			return
		}
		path := filepath.Join(t.TempDir(), "again.json")
		requests := c.Requests()
		r, err := cassette.NewRecorder(path, c.Replay())
		require.NoError(t, err)
		for i := range requests {
			_, err := r.Generate(t.Context(), &requests[i], func(abi.Chunk) error { return nil })
			var d *cassette.DivergedError
			require.NotErrorAs(t, err, &d)
		}
		if len(requests) == 0 {
			return
		}
		again, err := cassette.Load(path)
		require.NoError(t, err)
		play := again.Replay()
		for i := range requests {
			_, err := play.Generate(t.Context(), &requests[i], nil)
			var d *cassette.DivergedError
			require.NotErrorAs(t, err, &d)
		}
		require.Zero(t, play.Left())
	})
}
