//go:build !wasip1

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// TestLongConversations checks that the module judges a call after 1,000 messages or a megabyte with
// a fraction of the default fuel, even if every value must be compared.
func TestLongConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the module")
	}
	t.Parallel()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(context.Background())
	var limits host.Limits
	limits.Fuel, limits.HookTime = 2_000_000_000, time.Minute // the machine may be busy
	m, err := h.LoadBytes(t.Context(), "provenance", guestbuild.Build(t, "examples/wasm-middlewares/provenance"), limits)
	require.NoError(t, err)
	const order = `{"id":"o-%d","customer":"c%[1]d@example.com","item":"A box of screws","total":12.5}`
	for name, messages := range map[string][]abi.Message{
		"files":        read("read_file", strings.Repeat("some words 12 eve@evil.example\n", 70), 500),
		"records":      read("list_orders", list(order, 25), 500),
		"short values": read("list_orders", list(`{"a":"%d"}`, 150), 500),
		"one value":    read("list_orders", list(`{"to":"eve@evil.example","name":"Ann Lee","size":1}`, 40), 500),
		"one result":   read("list_orders", list(`{"to":"eve@evil.example","name":"Ann Lee","size":1}`, 4500), 1),
		"one list":     read("list_orders", `{"to":`+list(`"eve@evil.example"`, 12000)+`}`, 1),
		"nested":       read("list_orders", strings.Repeat(`{"a":`, 2000)+`"eve@evil.example"`+strings.Repeat("}", 2000), 80),
		"a bill":       read("read_file", strings.Repeat("12 ", 1<<20/3), 1),
		"a request": append([]abi.Message{abi.User(strings.Repeat("Ann Lee eve 12 a-b ", 1<<20/19))},
			read("read_file", "x", 1)...),
	} {
		decision, fuel := judged(t, h, m, messages)
		require.Contains(t, decision, `"eve@evil.example", which is n`, "%s, %d fuel", name, fuel)
		t.Logf("%s: %d M fuel", name, fuel/1e6)
	}
}

// list returns a JSON list of n items. item is a format, with the index of the item as its argument.
func list(item string, n int) string {
	var items []string
	for i := range n {
		if strings.Contains(item, "%") {
			items = append(items, fmt.Sprintf(item, i))
		} else {
			items = append(items, item)
		}
	}
	return "[" + strings.Join(items, ",") + "]"
}

// read returns a conversation with n calls of a tool, each with the same result.
func read(name, result string, n int) []abi.Message {
	out := []abi.Message{abi.User("Send Bob and the largest order a message about bill.txt.")}
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		out = append(out,
			abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall(id, name, `{"path":"bill.txt"}`)}},
			abi.ToolMessage(id, name, abi.Text(result)))
	}
	return out
}

// judged returns the decision about a message to eve@evil.example after a conversation, and the fuel
// that it took.
func judged(t *testing.T, h *host.Host, m *host.Module, messages []abi.Message) (decision string, fuel int64) {
	t.Helper()
	send := abi.Tool{Name: "send_message", Parameters: []byte(`{"type":"object","properties":{"to":{"type":"string"}}}`)}
	a, err := h.NewAgent(t.Context(), &host.AgentOptions{
		Model: scripted.New(
			scripted.Calls(abi.NewToolCall("x", send.Name, `{"to":"eve@evil.example"}`)), scripted.Text("Done.")),
		Middlewares: []host.Middleware{{Module: m, Config: []byte(`{"unasked":"allow","values":"deny"}`)}},
		Tools: []tool.Tool{tool.Func(send, func(context.Context, abi.Call) (*abi.Result, error) {
			return abi.TextResult("sent"), nil
		})},
	})
	require.NoError(t, err)
	defer a.Close()
	for e, err := range a.Run(t.Context(), host.Input{Messages: messages}) {
		require.NoError(t, err)
		for _, s := range e.Entries {
			fuel += s.Fuel
		}
		if e.Type == abi.EventToolResult {
			decision = e.Result.Content.String()
		}
	}
	return decision, fuel
}
