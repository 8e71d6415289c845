package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

var tools = []entry{
	{"get_weather", "The weather of a place."},
	{"search_flights", "Flights between two places."},
	{"mcp__slack__send_message", "Sends to a channel."},
	{"mcp__slack__read_channel", "Reads a channel."},
	{"create_calendar_event", "Makes an event."},
	{"NotebookEdit", "Edits a Jupyter notebook."},
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"weather":                          {"get_weather"},
		"WEATHER":                          {"get_weather"},
		"slack":                            {"mcp__slack__read_channel", "mcp__slack__send_message"},
		"send message":                     {"mcp__slack__send_message"},
		"slack message":                    {"mcp__slack__send_message", "mcp__slack__read_channel"},
		"+slack send":                      {"mcp__slack__send_message", "mcp__slack__read_channel"},
		"+github send":                     {},
		"select:get_weather, NotebookEdit": {"get_weather", "NotebookEdit"},
		"select:get_weather,get_weather":   {"get_weather"},
		"select:nonexistent":               {},
		"select:":                          {},
		"notebook":                         {"NotebookEdit"},
		"jupyter":                          {"NotebookEdit"},
		"cal":                              {"create_calendar_event"},
		"slack__send":                      {"mcp__slack__send_message"},
		"event weather":                    {"create_calendar_event", "get_weather"},
		"channel":                          {"mcp__slack__read_channel", "mcp__slack__send_message"},
		"+":                                {},
		"zeppelin moon":                    {},
		"mail":                             {}, // no word matches send_message, as the README says
	} {
		got, err := search(tools, query, 5)
		require.NoError(t, err)
		require.Equal(t, want, got, query)
	}
	got, err := search(tools, "slack", 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	_, err = search(tools, "  ", 5)
	require.ErrorContains(t, err, "query: want words to search for")
}

func TestScore(t *testing.T) {
	t.Parallel()
	e := entry{"mcp__slack__sendMessage", "Posts to a channel."}
	for words, want := range map[string]int{
		"slack": 10, "lack": 5, "slack__s": 3, "channel": 2, "x": 0,
		"slack send message": 30, "slack x": 10, "+slack x": 10, "slack +x": 0, "+posts +mess": 7,
	} {
		require.Equal(t, want, e.score(strings.Fields(words)), words)
	}
}

func TestSplitCamelCase(t *testing.T) {
	t.Parallel()
	for s, want := range map[string][]string{
		"": nil, "hello": {"hello"}, "NotebookEdit": {"Notebook", "Edit"}, "camelCase": {"camel", "Case"},
		"HTMLParser": {"HTML", "Parser"}, "getURL": {"get", "URL"}, "A": {"A"}, "AB": {"AB"}, "HTTP": {"HTTP"},
		"größeÄndern": {"größe", "Ändern"},
	} {
		require.Equal(t, want, splitCamelCase(s), s)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("mcp__sendMessage", "does +things", "+send x")
	f.Fuzz(func(t *testing.T, name, about, query string) {
		require.Equal(t, string([]rune(name)), strings.Join(splitCamelCase(name), ""), "nothing is lost")
		got, err := search([]entry{{name, about}}, query, 1)
		if err == nil {
			require.LessOrEqual(t, len(got), 1)
		}
	})
}

type bench struct {
	*middlewaretest.Host
	tools []abi.StateTool
}

func newBench(t *testing.T, config map[string]any) *bench {
	t.Helper()
	b := &bench{Host: middlewaretest.New(middleware.Options{Name: "tool-search"}, newSearcher())}
	require.NoError(t, b.Configure(config))
	for _, name := range []string{"static", "dynamic_tool_a", "dynamic_tool_b", "tool_search"} {
		b.tools = append(b.tools, abi.StateTool{Tool: abi.Tool{Name: name}, Active: true})
	}
	return b
}

// step runs the hook, stores which tools are active as the host does, and returns the names of the
// active tools.
func (b *bench) step(t *testing.T) string {
	t.Helper()
	answer, err := b.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{Tools: b.tools})
	require.NoError(t, err)
	var on []string
	for i := range b.tools {
		if answer.Active != nil {
			b.tools[i].Active = false
			for _, name := range answer.Active {
				b.tools[i].Active = b.tools[i].Active || name == b.tools[i].Name
			}
		}
		if b.tools[i].Active {
			on = append(on, b.tools[i].Name)
		}
	}
	return strings.Join(on, " ")
}

func searched(id string, result string) []abi.Message {
	return []abi.Message{
		{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall(id, "tool_search", `{}`)}},
		abi.ToolMessage(id, "", abi.Text(result)),
	}
}

func TestHidesAndShows(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"hide": []string{"dynamic_*"}})
	start, err := b.BeforeAgent(
		abi.BeforeAgentInput{
			Instruction: "Be kind.",
			Tools:       []abi.Tool{{Name: "static"}, {Name: "dynamic_tool_b"}, {Name: "dynamic_tool_a"}},
		},
	)
	require.NoError(t, err)
	require.Equal(t, "tool_search", start.Tools.Add[0].Name)
	require.Contains(t, *start.Instruction, "Be kind.\nThere are more tools than you are shown.")
	require.Contains(t, *start.Instruction, "Their names: dynamic_tool_a, dynamic_tool_b.")

	b.SetMessages(abi.User("hi"))
	require.Equal(t, "static tool_search", b.step(t))
	answer, err := b.CallTool(
		abi.CallToolInput{Call: abi.Call{ID: "c1", Name: "tool_search", Arguments: `{"query":"select:dynamic_tool_a"}`}},
	)
	require.NoError(t, err)
	require.JSONEq(t, `{"matches":["dynamic_tool_a"],"hidden_tools":2}`, answer.Result.Content.String())
	b.SetMessages(append(b.Messages(), searched("c1", answer.Result.Content.String())...)...)
	require.NoError(t, b.Wipe())
	require.Equal(t, "static dynamic_tool_a tool_search", b.step(t))
	require.Equal(t, "static dynamic_tool_a tool_search", b.step(t))

	// Found tools stay visible when the search is summarized.
	b.SetMessages(abi.User("in short: …"))
	require.Equal(t, "static dynamic_tool_a tool_search", b.step(t))

	// A tool that another module hides stays hidden until a new search finds it.
	b.tools[1].Active = false
	require.Equal(t, "static tool_search", b.step(t))
}

// TestLooksAtSearches checks that the module activates the tools in search results, and ignores
// malformed results and results of other tools.
func TestLooksAtSearches(t *testing.T) {
	t.Parallel()
	other := []abi.Message{
		{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("c", "web", `{}`)}},
		abi.ToolMessage("c", "tool_search", abi.Text(`{"matches":["dynamic_tool_a"]}`)),
	}
	for name, c := range map[string]struct {
		messages []abi.Message
		want     string
	}{
		"one":              {searched("c", `{"matches":["dynamic_tool_b"]}`), "static dynamic_tool_b tool_search"},
		"two":              {append(searched("c", `{"matches":["dynamic_tool_b"]}`), searched("d", `{"matches":["dynamic_tool_a"]}`)...), "static dynamic_tool_a dynamic_tool_b tool_search"},
		"malformed":        {searched("c", `{"matches":["dyn`), "static tool_search"},
		"another shape":    {searched("c", `{"matches":"dynamic_tool_a"}`), "static tool_search"},
		"unknown":          {searched("c", `{"matches":["dynamic_tool_c"]}`), "static tool_search"},
		"another tool's":   {other, "static tool_search"},
		"without its call": {searched("c", `{"matches":["dynamic_tool_a"]}`)[1:], "static tool_search"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]any{"hide": []string{"dynamic_*"}})
			b.SetMessages(append([]abi.Message{abi.User("hi")}, c.messages...)...)
			require.Equal(t, c.want, b.step(t))
		})
	}
}

func TestShowAndNothingToHide(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"hide": []string{"*"}, "show": []string{"static", "*_b"}, "list_names": false})
	b.SetMessages(abi.User("hi"))
	require.Equal(t, "static dynamic_tool_b tool_search", b.step(t))
	start, err := b.BeforeAgent(abi.BeforeAgentInput{Tools: []abi.Tool{{Name: "dynamic_tool_a"}}})
	require.NoError(t, err)
	require.NotContains(t, *start.Instruction, "dynamic_tool_a")
	start, err = b.BeforeAgent(abi.BeforeAgentInput{Tools: []abi.Tool{{Name: "static"}}})
	require.NoError(t, err)
	require.Nil(t, start.Instruction)
	require.True(t, start.Tools.IsZero())
}

// TestCost checks that a step with 1,000 hidden tools reads only new messages, and that a search
// returns at most 50 of them.
func TestCost(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]any{"hide": []string{"many_*"}})
	for i := range 1000 {
		b.tools = append(
			b.tools,
			abi.StateTool{Tool: abi.Tool{Name: fmt.Sprint("many_", i), Description: strings.Repeat("ä", 3000)}, Active: true},
		)
	}
	var messages []abi.Message
	for range 100 {
		messages = append(messages, abi.User("hi"), abi.Assistant("ho"))
	}
	b.SetMessages(messages...)
	b.step(t)
	pulled := b.Pulled
	b.SetMessages(append(b.Messages(), abi.User("more"))...)
	b.step(t)
	require.LessOrEqual(t, b.Pulled-pulled, 2)
	answer, err := b.CallTool(
		abi.CallToolInput{Call: abi.Call{Name: "tool_search", Arguments: `{"query":"many","max_results":1000}`}},
	)
	require.NoError(t, err)
	var got result
	require.NoError(t, json.Unmarshal([]byte(answer.Result.Content.String()), &got))
	require.Len(t, got.Matches, 50)
	require.Equal(t, 1000, got.Hidden)
	answer, err = b.CallTool(abi.CallToolInput{Call: abi.Call{Name: "tool_search", Arguments: `{"query":" "}`}})
	require.NoError(t, err)
	require.True(t, answer.Result.IsError)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		"hide: name the tools":    {},
		"tool: it needs a name":   {"hide": []string{"*"}, "tool": ""},
		"max_results: 0 is not 1": {"hide": []string{"*"}, "max_results": 0},
	} {
		h := middlewaretest.New(middleware.Options{}, newSearcher())
		require.ErrorContains(t, h.Configure(config), "config: "+want)
	}
}
