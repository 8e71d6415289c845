package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type bench struct{ *middlewaretest.Host }

func newBench(t *testing.T, config map[string]any) bench {
	t.Helper()
	b := bench{middlewaretest.New(middleware.Options{Name: "reduce"}, newReducer())}
	require.NoError(t, b.Configure(config))
	return b
}

// ran passes a tool's result to the module, and returns the result as the module leaves it.
func (b bench) ran(t *testing.T, call abi.Call, result *abi.Result) *abi.Result {
	t.Helper()
	answer, err := b.AfterTool(abi.AfterToolInput{Call: call, Result: result, Source: "tool"})
	require.NoError(t, err)
	if answer.Result != nil {
		return answer.Result
	}
	return result
}

// read calls the tool that reads stored text.
func (b bench) read(t *testing.T, args map[string]any) *abi.Result {
	t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	answer, err := b.CallTool(abi.CallToolInput{Call: abi.Call{ID: "c", Name: "read_result", Arguments: string(raw)}})
	require.NoError(t, err)
	return answer.Result
}

// readAll reads all pages of stored text.
func (b bench) readAll(t *testing.T, id string, bytes int) string {
	t.Helper()
	var all strings.Builder
	for all.Len() < bytes {
		res := b.read(t, map[string]any{"id": id, "from": all.Len()})
		require.False(t, res.IsError, "%s", res.Content.String())
		_, page, _ := strings.Cut(res.Content.String(), "\n")
		require.NotEmpty(t, page)
		all.WriteString(page)
	}
	return all.String()
}

func TestCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 40, "exclude": []string{"raw_*"}})
	text := strings.Repeat("é", 50) + strings.Repeat("z", 99)
	res := b.ran(t, abi.Call{ID: "c1", Name: "read"}, abi.TextResult(text))
	require.Equal(
		t,
		"[This result was cut: it has 199 bytes. Read all of it, or look for a text in it, with read_result {\"id\":\"r1\"}.]\n\n"+
			"Its begin:\néééééééééé\n\nIts end:\nzzzzzzzzzzzzzzzzzzzz",
		res.Content.String(),
	)
	require.JSONEq(t, `{"reduce":{"id":"r1"}}`, string(res.Extra))
	require.Equal(t, text, b.readAll(t, "r1", 199))

	for name, same := range map[string]struct {
		call   abi.Call
		result *abi.Result
	}{
		"short":      {abi.Call{Name: "read"}, abi.TextResult(strings.Repeat("z", 70))},
		"excluded":   {abi.Call{Name: "raw_x"}, abi.TextResult(text)},
		"its own":    {abi.Call{Name: "read_result"}, abi.TextResult(text)},
		"a module's": {abi.Call{Name: "read", By: &abi.By{Entry: "other"}}, abi.TextResult(text)},
	} {
		require.Equal(t, same.result, b.ran(t, same.call, same.result), name)
	}
	_, err := b.AfterTool(
		abi.AfterToolInput{Call: abi.Call{Name: "read"}, Error: &abi.Error{Code: abi.CodeTool, Message: text}},
	)
	require.NoError(t, err)
}

// TestNothingIsOverwritten checks that calls with equal ids, which some endpoints produce, do not
// share a stored text.
func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	for _, keep := range []string{"run", "store"} {
		b := newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 0, "keep": keep})
		texts := map[string]string{}
		for i := range 5 {
			text := strings.Repeat(fmt.Sprint(i), 1000)
			res := b.ran(t, abi.Call{ID: "same", Name: "read"}, abi.TextResult(text))
			texts[markOf(res.Extra).ID] = text
			require.NoError(t, b.Wipe())
		}
		require.Len(t, texts, 5)
		for id, text := range texts {
			require.Equal(t, text, b.readAll(t, id, len(text)))
			require.Equal(t, keep == "store", strings.HasPrefix(id, "run-1."))
		}
		if keep == "store" {
			// Another run reads the stored text, and stores its own text under another id.
			b.Run.ID = "run-2"
			res := b.ran(t, abi.Call{ID: "same", Name: "read"}, abi.TextResult(strings.Repeat("y", 99)))
			require.Equal(t, "run-2.r6", markOf(res.Extra).ID)
			require.Equal(t, texts["run-1.r1"], b.readAll(t, "run-1.r1", 1000))
		}
	}
}

// TestPages checks that stored text reads back unchanged page by page, and that searches find text
// in it.
func TestPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		var text strings.Builder
		for text.Len() < 1+r.IntN(4*pieceBytes) {
			text.WriteString([]string{"a", "é", "好", "😀", "\n"}[r.IntN(5)])
		}
		text.WriteString("needle好")
		b := newBench(t, map[string]any{"max_bytes": 1, "preview_bytes": 0, "page_bytes": 100 + r.IntN(9000)})
		res := b.ran(t, abi.Call{Name: "read"}, abi.TextResult(text.String()))
		id := markOf(res.Extra).ID
		require.Equal(t, text.String(), b.readAll(t, id, text.Len()))

		from := r.IntN(text.Len() - 10)
		res = b.read(t, map[string]any{"id": id, "from": from, "find": "needle"})
		require.Contains(t, res.Content.String(), fmt.Sprintf("\nbyte %d: …", text.Len()-9))
		res = b.read(t, map[string]any{"id": id, "from": from})
		require.True(t, utf8.ValidString(res.Content.String()))
		require.Contains(t, b.read(t, map[string]any{"id": id, "find": "haystack"}).Content.String(), "[not found")
	}
}

func TestFindsAtMost(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 1, "preview_bytes": 0})
	b.ran(t, abi.Call{Name: "read"}, abi.TextResult(strings.Repeat("x", 30)))
	text := b.read(t, map[string]any{"id": "r1", "find": "x"}).Content.String()
	require.Equal(t, 20, strings.Count(text, "\nbyte "))
	require.Contains(t, text, "there are more; go on with \"from\": 20")
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 10, "preview_bytes": 0})
	b.ran(t, abi.Call{Name: "read"}, abi.TextResult(strings.Repeat("x", 30)))
	for want, args := range map[string]map[string]any{
		"no text is stored under the id \"r2\"":           {"id": "r2"},
		"no text is stored under the id \"../saved\"":     {"id": "../saved"},
		"id: the id of a result":                          {"id": strings.Repeat("x", 300)},
		"from: 30 is not 0 to 29":                         {"id": "r1", "from": 30},
		"from: -1 is not 0 to 29":                         {"id": "r1", "from": -1},
		"arguments of read_result: unknown: to":           {"id": "r1", "to": 1},
		"arguments of read_result: from: ":                {"id": "r1", "from": "x"},
		"arguments of read_result: from: 1.5":             {"id": "r1", "from": 1.5},
		"no text is stored under the id \"r1/0\"; it may": {"id": "r1/0"},
	} {
		res, err := b.CallTool(abi.CallToolInput{Call: abi.Call{Name: "read_result", Arguments: must(json.Marshal(args))}})
		require.NoError(t, err)
		require.True(t, res.Result.IsError, want)
		require.Contains(t, res.Result.Content.String(), strings.TrimSuffix(want, ": 1.5"))
	}
}

func must(b []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestNotKept checks that a cut result says that the rest is lost if it could not be stored, or if
// keep is "none".
func TestNotKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 0, "keep": "store"})
	b.NoStore = true
	text := b.ran(t, abi.Call{Name: "read"}, abi.TextResult(strings.Repeat("z", 9000))).Content.String()
	require.Contains(
		t,
		text,
		"The rest of it is lost, because it could not be stored: store is not granted to this entry.",
	)
	require.Contains(t, string(b.Events[0].Data), `"error":"store is not granted`)

	b = newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 0, "keep": "none"})
	res := b.ran(t, abi.Call{Name: "read"}, abi.TextResult(strings.Repeat("z", 90)))
	require.Contains(t, res.Content.String(), "The rest of it is lost.]")
	require.Empty(t, b.Locals())
	answer, err := b.BeforeAgent(abi.BeforeAgentInput{})
	require.NoError(t, err)
	require.True(t, answer.Tools.IsZero(), "no tool to read what is not kept")
}

// TestPartsAndExtra checks that cutting preserves images and other modules' entries in the extra.
func TestPartsAndExtra(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 0})
	image := abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:image/png;base64,AA=="}`)}
	res := b.ran(t, abi.Call{Name: "read"}, &abi.Result{
		Content: abi.Parts(
			abi.Part{Type: abi.PartText, Text: strings.Repeat("z", 50)},
			image,
			abi.Part{Type: abi.PartText, Text: strings.Repeat("y", 50)},
		),
		Extra: []byte(`{"other":1}`),
	})
	require.Len(t, res.Content.Parts(), 2)
	require.Equal(t, image, res.Content.Parts()[1])
	require.JSONEq(t, `{"other":1,"reduce":{"id":"r1"}}`, string(res.Extra))
	require.Equal(t, strings.Repeat("z", 50)+strings.Repeat("y", 50), b.readAll(t, "r1", 100))
}

func TestAnswersOfTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 70, "preview_bytes": 0})
	answer, err := b.BeforeAgent(abi.BeforeAgentInput{ReturnDirectly: []string{"report"}})
	require.NoError(t, err)
	require.Equal(t, "read_result", answer.Tools.Add[0].Name)
	long := abi.TextResult(strings.Repeat("z", 99))
	require.Equal(t, long, b.ran(t, abi.Call{Name: "report"}, long))
}

// rounds returns a conversation of n rounds of one call each.
func rounds(n int, result abi.Content) []abi.Message {
	out := []abi.Message{abi.User("go")}
	for i := range n {
		id := fmt.Sprint("c", i)
		out = append(out, abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall(id, "read", "{}")}},
			abi.ToolMessage(id, "", result))
	}
	return out
}

func (b bench) step(t *testing.T) []abi.Message {
	t.Helper()
	_, err := b.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	return b.Messages()
}

func TestClear(t *testing.T) {
	t.Parallel()
	sunny := strings.Repeat("Sunny. ", 100)
	b := newBench(t, map[string]any{"clear_tokens": 500, "keep_rounds": 1})
	b.SetMessages(rounds(4, abi.Text(sunny))...)
	got := b.step(t)
	for i := range 3 {
		require.Equal(
			t,
			fmt.Sprintf(`[This old result of read was cleared. Read it with read_result {"id":"r%d"}.]`, i+1),
			got[2+2*i].Content.String(),
		)
		require.Equal(t, sunny, b.readAll(t, fmt.Sprint("r", i+1), len(sunny)))
	}
	require.Equal(t, sunny, got[8].Content.String())
	require.JSONEq(t, `{"results":3,"tokens":465}`, string(b.Events[0].Data))

	// A second pass does not change cleared results or their originals.
	more := rounds(1, abi.Text(strings.Repeat("Rain. ", 1000)))
	b.SetMessages(append(append(got, abi.Assistant("hm")), more...)...)
	got = b.step(t)
	require.Contains(t, got[8].Content.String(), `"r4"`)
	for i := range 4 {
		require.Equal(t, sunny, b.readAll(t, fmt.Sprint("r", i+1), len(sunny)), "the original")
	}
	b.step(t)
	require.Len(t, b.Events, 2, "nothing is left to clear")
}

func TestClearsNot(t *testing.T) {
	t.Parallel()
	long := abi.Text(strings.Repeat("Sunny. ", 100))
	image := abi.Parts(
		abi.Part{Type: abi.PartText, Text: long.String()},
		abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"x"}`)},
	)
	for name, c := range map[string]struct {
		config   map[string]any
		messages []abi.Message
	}{
		"too few tokens":       {map[string]any{"clear_tokens": 5000}, rounds(8, long)},
		"too little freed":     {map[string]any{"clear_at_least": 10_000}, rounds(8, long)},
		"the last rounds":      {map[string]any{"keep_rounds": 8}, rounds(8, long)},
		"excluded":             {map[string]any{"exclude": []string{"re*"}}, rounds(8, long)},
		"short":                {nil, rounds(100, abi.Text("Sunny."))},
		"images":               {nil, rounds(8, image)},
		"never":                {map[string]any{"clear_tokens": 0}, rounds(80, long)},
		"no results, but long": {nil, []abi.Message{abi.User(strings.Repeat("Sunny. ", 1000))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := map[string]any{"clear_tokens": 500}
			for k, v := range c.config {
				config[k] = v
			}
			b := newBench(t, config)
			b.SetMessages(c.messages...)
			before := b.Messages()
			require.Equal(t, before, b.step(t))
			require.Empty(t, b.Events)
			require.NotContains(t, b.Locals(), "text/r1", "nothing was written")
		})
	}
}

// TestClearNotKept checks that old results remain if they cannot be stored, and that they are
// cleared if keep is "none".
func TestClearNotKept(t *testing.T) {
	t.Parallel()
	long := abi.Text(strings.Repeat("Sunny. ", 100))
	b := newBench(t, map[string]any{"clear_tokens": 500, "keep": "store"})
	b.NoStore = true
	b.SetMessages(rounds(8, long)...)
	before := b.Messages()
	require.Equal(t, before, b.step(t))
	require.Contains(t, string(b.Events[0].Data), "others could not be stored, and remain")

	b = newBench(t, map[string]any{"clear_tokens": 500, "keep": "none", "keep_rounds": 7})
	b.SetMessages(rounds(8, long)...)
	require.Equal(t, "[This old result of read was cleared.]", b.step(t)[2].Content.String())
}

// TestCutThenCleared checks that a result that is cut and later cleared refers to its original
// text.
func TestCutThenCleared(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"max_bytes": 600, "preview_bytes": 600, "clear_tokens": 200, "keep_rounds": 1})
	text := strings.Repeat("Sunny. ", 100)
	res := b.ran(t, abi.Call{Name: "read"}, abi.TextResult(text))
	messages := rounds(3, abi.Text("short"))
	messages[2].Content, messages[2].Extra = res.Content, res.Extra
	b.SetMessages(messages...)
	got := b.step(t)
	require.Equal(
		t,
		`[This old result of read was cleared. Read it with read_result {"id":"r1"}.]`,
		got[2].Content.String(),
	)
	require.Equal(t, text, b.readAll(t, "r1", len(text)))
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		"max_bytes, clear_tokens, clear_at": {"max_bytes": -1},
		"max_bytes and clear_tokens are":    {"max_bytes": 0, "clear_tokens": 0},
		"preview_bytes: 2000 is not":        {"max_bytes": 100},
		"keep_rounds: at least 1":           {"keep_rounds": 0},
		`keep: "disk" is not one of run, `:  {"keep": "disk"},
		"the tool needs a name":             {"tool": ""},
	} {
		b := middlewaretest.New(middleware.Options{}, newReducer())
		require.ErrorContains(t, b.Configure(config), "config: "+want)
	}
}
