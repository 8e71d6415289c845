package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

func reversible(t testing.TB, more object) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, newRedact())
	config := object{"reversible": true}
	for key, value := range more {
		config[key] = value
	}
	require.NoError(t, h.Configure(config))
	return h
}

// called streams the arguments of a call of a tool in the given pieces, and returns the output.
func called(t *testing.T, h *middlewaretest.Host, tool string, pieces ...string) string {
	t.Helper()
	chunks := []abi.Chunk{{Kind: abi.ChunkToolCall, ID: "1", Name: tool}}
	for _, piece := range pieces {
		chunks = append(chunks, abi.Chunk{Kind: abi.ChunkToolCall, Arguments: piece})
	}
	var out strings.Builder
	for _, c := range stream(t, h, 1, chunks...) {
		out.WriteString(c.Arguments)
	}
	return out.String()
}

func TestReversible(t *testing.T) {
	t.Parallel()
	h := reversible(t, object{"patterns": []object{{"name": "key", "pattern": `k-"[0-9]+"`}}})
	got := sent(
		t,
		h,
		abi.User(`I am bob@example.com; k-"7", [EMAIL_1], [EMAIL_x]`),
		abi.Message{
			Role:      abi.RoleAssistant,
			Content:   abi.Text("[EMAIL_2] [EMAIL_9]"),
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "write", `{"b":"k-\"7\"","a":[4111111111111111]}`)},
		},
		abi.ToolMessage("1", "write", abi.Text("BOB@example.com bob%40example.com [CREDIT_CARD_1]")),
	)
	require.Equal(t, "I am [EMAIL_1]; [KEY_1], [EMAIL_2], [EMAIL_x]", got[0].Content.String())
	require.Equal(t, "[EMAIL_2] [EMAIL_9]", got[1].Content.String(), "what the model wrote")
	require.Equal(t, `{"b":"[KEY_1]","a":["[CREDIT_CARD_1]"]}`, got[1].ToolCalls[0].Function.Arguments)
	require.Equal(t, "[EMAIL_3] [EMAIL_4] [CREDIT_CARD_2]", got[2].Content.String())
	require.NotContains(t, string(events(t, h)), "@")

	require.NoError(t, h.Wipe())

	for size := 1; size < 14; size++ {
		require.Equal(
			t,
			"[[BOB@example.com]] [EMAIL_1] [EMAIL_01] [EMAIL_5] [IP_1] [email_1] bob%40example.com eve@example.com [EMAIL_",
			said(
				t,
				h,
				"[[[EMAIL_3]]] [EMAIL_2] [EMAIL_01] [EMAIL_5] [IP_1] [email_1] [EMAIL_4] eve@example.com [EMAIL_",
				size,
			),
			"%d",
			size,
		)
		require.JSONEq(
			t,
			`{"x":["k-\"7\" BOB@example.com","\"[CREDIT_CARD_1]"],"n":[1e2]}`,
			called(
				t,
				h,
				"write",
				pieces(`{"x":["[KEY_1] [EMAIL_3]","\"[CREDIT_CARD_2]"],"n":[1e2]}`, rand.New(rand.NewPCG(uint64(size), 0)))...),
		)
	}
	require.Equal(t, "[EMAIL_1]", called(t, h, "write", "[EMAIL_1]"), "outside a string")
	require.Len(t, h.Locals(), 1, "nothing is kept of streams that are over")

	answer, err := h.BeforeTool(abi.BeforeToolInput{Call: abi.Call{Name: "write", Arguments: `{"a":"[EMAIL_1]"}`}})
	require.NoError(t, err)
	require.Nil(t, answer.Arguments, "what was restored, or kept, stays as it is")
	h.SetMessages(abi.Assistant("[EMAIL_1] " + mail))
	_, err = h.AfterModelRewriteState(abi.AfterModelRewriteStateInput{})
	require.NoError(t, err)
	require.Equal(t, "[EMAIL_1] "+mail, h.Messages()[0].Content.String())
}

// TestHeldPlaceholder checks that only what may begin a placeholder is held back, and that it passes before a
// chunk of another kind.
func TestHeldPlaceholder(t *testing.T) {
	t.Parallel()
	h := reversible(t, nil)
	sent(t, h, abi.User(mail))
	reasoning := abi.Chunk{Kind: abi.ChunkReasoning, Text: "[EMAIL_1]"}
	require.Equal(
		t,
		[]abi.Chunk{text("words [x]"), text("[ab"), text("x "), text("[EMAIL_"), reasoning, text("1] "), text(mail)},
		stream(t, h, 1, text("words [x]"), text("[ab"), text("x [EMAIL_"), reasoning, text("1] [EM"), text("AIL_1]")),
	)
}

func TestSinks(t *testing.T) {
	t.Parallel()
	ask := func(h *middlewaretest.Host) {
		sent(
			t,
			h,
			abi.User("I am "+mail),
			abi.Message{Role: abi.RoleUser, Origin: abi.OriginTool, Content: abi.Text("eve@example.com")},
			abi.ToolMessage("1", "read", abi.Text("amy@example.org "+mail)),
		)
	}
	h := reversible(t, nil)
	ask(h)
	const arguments = `{"a":"[EMAIL_1] [EMAIL_2] [EMAIL_3]"}`
	kept := `{"a":"` + mail + ` [EMAIL_2] [EMAIL_3]"}`
	restored := `{"a":"` + mail + ` eve@example.com amy@example.org"}`
	for tool, want := range map[string]string{
		"write": restored, "Edit": restored, "read_file": restored, "apply_patch": restored, "Task": restored,
		"send": kept, "gmail_SEND": kept, "Bash": kept, "run_shell_command": kept, "exec": kept, "WebFetch": kept,
		"mcp__http__get": kept, "browser_navigate": kept, "send_email": kept, "": kept,
	} {
		require.Equal(t, want, called(t, h, tool, pieces(arguments, rand.New(rand.NewPCG(1, 1)))...), tool)
	}
	require.Contains(t, string(events(t, h)), `{"placeholders":`)
	require.NotContains(t, string(events(t, h)), "@")

	h = reversible(t, object{"sinks": []string{"Wr*"}})
	ask(h)
	require.Equal(t, kept, called(t, h, "write", arguments))
	require.Equal(t, restored, called(t, h, "send", arguments))
	sent(t, h, abi.User("I am "+mail), abi.User("and amy@example.org"))
	require.Equal(t, `{"a":"[EMAIL_2] amy@example.org"}`, called(t, h, "write", `{"a":"[EMAIL_2] [EMAIL_3]"}`))

	h = reversible(t, object{"restore_arguments": false, "restore_output": false})
	ask(h)
	require.Equal(t, arguments, called(t, h, "write", arguments))
	require.Equal(t, "[EMAIL_1]", said(t, h, "[EMAIL_1]", 3))
}

// TestLinks checks that only the user's own values are restored in addresses, which a client may
// load.
func TestLinks(t *testing.T) {
	t.Parallel()
	h := reversible(t, nil)
	sent(t, h, abi.ToolMessage("1", "read", abi.Text(mail)), abi.User("amy@example.org"))
	for text, restored := range map[string]bool{
		"Bob <[EMAIL_1]>, [EMAIL_1]: a/b [x] ([EMAIL_1]) {a: [EMAIL_1]} 1 < [EMAIL_1]": true,
		"see https://x.example/?a=1, or ask [EMAIL_1]":                                 true,
		"[docs](https://x.example \"y\") by [EMAIL_1], <b>[EMAIL_1]</b> [EMAIL_1]":     true,
		"a<b\n\n[EMAIL_1]":                                    true,
		"![x](https://x.example/?q=[EMAIL_1])":                false,
		"![x](https&colon;&sol;&sol;x.example/(a)/[EMAIL_1])": false,
		"![x]( \n//x.example/[EMAIL_1])":                      false,
		"![x](<https&colon;&sol;&sol;x.example/a [EMAIL_1]>)": false,
		"![x]\n\n[x]: http:x.example/[EMAIL_1]":               false,
		"<img alt=x\nsrc='https://x.example/ \n[EMAIL_1]'>":   false,
		"https://x.example/[EMAIL_1]":                         false,
	} {
		for size := 1; size < 9; size++ {
			want := text
			if restored {
				want = strings.ReplaceAll(text, "[EMAIL_1]", mail)
			}
			require.Equal(t, want, said(t, h, text, size))
		}
	}
	require.Equal(t, "![x](//x.example/amy@example.org)", said(t, h, "![x](//x.example/[EMAIL_2])", 5))
}

// TestSeenValues checks that a value that has a placeholder is also hidden where no detector finds
// it. Otherwise a model could have a tool write the value into such a place, and read the value in
// the next request.
func TestSeenValues(t *testing.T) {
	t.Parallel()
	const card = "4111 1111 1111 1111"
	got := sent(
		t,
		reversible(t, nil),
		abi.User(card),
		abi.Message{
			Role:      abi.RoleAssistant,
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "write", `{"a":"0`+card+`0"}`)},
		},
		abi.ToolMessage("1", "write", abi.Text("x"+card+"x 4111 1111 1111 111")),
	)
	require.Equal(t, `{"a":"0[CREDIT_CARD_1]0"}`, got[1].ToolCalls[0].Function.Arguments)
	require.Equal(t, "x[CREDIT_CARD_1]x 4111 1111 1111 111", got[2].Content.String())
}

// TestPlaceholdersAreStable checks that requests of a growing conversation have a common prefix. The
// client sends back what it received, and each request is a run of its own.
func TestPlaceholdersAreStable(t *testing.T) {
	t.Parallel()
	history, before := []abi.Message{}, []abi.Message{}
	for i := range 5 {
		h := reversible(t, nil)
		history = append(
			history,
			abi.User(fmt.Sprintf("I am u%d@example.com, not [EMAIL_%d]", i, i)),
			abi.ToolMessage("x", "read", abi.Text(fmt.Sprintf("t%d@example.com U%d@example.com", i, i))),
		)
		got := sent(t, h, history...)
		require.Equal(t, before, got[:len(before)])
		wrote := fmt.Sprintf("[EMAIL_%d] [EMAIL_%d] [EMAIL_%d]", 4*i+1, 4*i+2, 4*i+3)
		arguments := called(t, h, "write", `{"a":"`+wrote+`"}`)
		require.Equal(t, fmt.Sprintf(`{"a":"u%d@example.com [EMAIL_%d] t%d@example.com"}`, i, i, i), arguments)
		history = append(history, abi.Message{
			Role: abi.RoleAssistant, Content: abi.Text(said(t, h, wrote, 5)),
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "write", arguments)},
		})
		before = append(got, abi.Message{
			ID: fmt.Sprintf("m%d", 3*i+3), Role: abi.RoleAssistant, Content: abi.Text(wrote),
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "write", `{"a":"`+wrote+`"}`)},
		})
	}
}

// twoBooks assigns placeholders in two hooks at once.
type twoBooks struct{ t *testing.T }

func (b twoBooks) BeforeModel(ctx *middleware.Context, _ *middleware.ModelStart) error {
	var books [2]book
	for i := range books {
		books[i].ctx = ctx
		books[i].index()
		require.Equal(b.t, "[EMAIL_1]", books[i].placeholder("EMAIL", strconv.Itoa(i)))
	}
	for i := range books {
		saved, err := books[i].save()
		require.NoError(b.t, err)
		require.Equal(b.t, i == 0, saved, "the number is taken")
	}
	return nil
}

func TestConcurrentPlaceholders(t *testing.T) {
	t.Parallel()
	_, err := middlewaretest.New(middleware.Options{}, twoBooks{t}).BeforeModel(abi.BeforeModelInput{})
	require.NoError(t, err)
}

func TestPlaceholdersAreBounded(t *testing.T) {
	t.Parallel()
	h := reversible(t, object{"patterns": []object{{"name": "long", "pattern": "x{100}[x]*"}}})
	var many strings.Builder
	for i := range maxPlaceholders + 1 {
		fmt.Fprintf(&many, "u%d@example.com ", i)
	}
	require.Equal(t, "[REDACTED_LONG]", sent(t, h, abi.User(strings.Repeat("x", maxValue+1)))[0].Content.String())
	got := sent(t, h, abi.User(many.String()))[0].Content.String()
	require.Contains(t, got, "[EMAIL_999] "+hidden)
	require.NotContains(t, got, "@")
	require.Equal(t, "u998@example.com", said(t, h, "[EMAIL_999]", 4))
}

func TestReversibleWithOtherStrategies(t *testing.T) {
	t.Parallel()
	h := reversible(t, object{"strategies": object{"credit_card": "mask"}, "tool_arguments": true})
	got := sent(t, h, abi.User("4111 1111 1111 1111 "+mail))
	require.Equal(t, "**** **** **** 1111 [EMAIL_1]", got[0].Content.String())
	require.Equal(
		t,
		`{"a":"************1111","b":"`+mail+`"}`,
		called(t, h, "write", `{"a":41111111111`, `11111,"b":"[EMA`, `IL_1]"}`),
	)
	for want, config := range map[string]object{
		"config: reversible: no kind has the strategy redact":            {"strategy": "mask"},
		"config: strategy: token has tokens of its own; with reversible": {"strategy": "token"},
		"config: strategies.ip: token has tokens of its own":             {"strategies": object{"ip": "token"}},
	} {
		config["reversible"] = true
		require.ErrorContains(t, middlewaretest.New(middleware.Options{}, newRedact()).Configure(config), want)
	}
}

// FuzzReversible checks that text is restored exactly, in the model's text and in arguments, and that
// the output does not depend on how the model's text is split.
func FuzzReversible(f *testing.F) {
	f.Add("mail bob@example.com, BOB@example.com [EMAIL_1] [EMAIL_2] [[EMAIL_3]", uint64(1))
	f.Add(`"4111 1111 1111 1111\" [CREDIT_CARD_1]\u005bEMAIL_1] <bob&#64;example.com>`, uint64(2))
	f.Add("[EMAIL_bob@example.com] [EMAIL_[IP_1]] 10.0.0.1.[IP_2] [IP_1", uint64(3))
	f.Fuzz(func(t *testing.T, was string, seed uint64) {
		was = strings.ToValidUTF8(was, "?")
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRedact()
		r.Reversible = true
		require.NoError(t, r.Configure(nil))
		r.book = book{loaded: true, values: map[string][]secret{}}
		r.book.index()
		r.book.fromUser = true
		shown := r.given.all(was, finds{})
		again := r.given.all(was, finds{})
		restored := func(b restoration, pieces []string) string {
			var out strings.Builder
			for _, piece := range pieces {
				out.WriteString(r.restored(&b, piece, false))
			}
			out.WriteString(r.restored(&b, "", true))
			return out.String()
		}
		require.Equal(t, was, restored(restoration{}, pieces(shown, random)), "%q", shown)
		require.Equal(t, was, restored(restoration{}, []string{again}), "%q", again)

		arguments, err := json.Marshal(shown)
		require.NoError(t, err)
		var back string
		require.NoError(
			t,
			json.Unmarshal([]byte(restored(restoration{JSON: true, Tool: "write"}, pieces(string(arguments), random))), &back),
		)
		require.Equal(t, was, back, "%q", shown)

		spelled, err := json.Marshal(was)
		require.NoError(t, err)
		hidden := r.calls.json(string(spelled), finds{})
		require.NoError(
			t,
			json.Unmarshal([]byte(restored(restoration{JSON: true, Tool: "write"}, pieces(hidden, random))), &back),
		)
		require.Equal(t, was, back, "%q", hidden)

		require.Equal(t, restored(restoration{}, []string{was}), restored(restoration{}, pieces(was, random)))
	})
}
