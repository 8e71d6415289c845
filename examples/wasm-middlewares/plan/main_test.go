package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

func newHost(t *testing.T, config map[string]any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{Name: "plan"}, newPlanner())
	require.NoError(t, h.Configure(config))
	return h
}

// do calls a tool with JSON arguments. It returns the result, and whether the call succeeded.
func do(t *testing.T, h *middlewaretest.Host, tool, arguments string) (text string, ok bool) {
	t.Helper()
	answer, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "todo_" + tool, Arguments: arguments}})
	require.NoError(t, err)
	return answer.Result.Content.String(), !answer.Result.IsError
}

func works(t *testing.T, h *middlewaretest.Host, tool, arguments string) string {
	t.Helper()
	text, ok := do(t, h, tool, arguments)
	require.True(t, ok, text)
	return text
}

func refuses(t *testing.T, h *middlewaretest.Host, tool, arguments, want string) {
	t.Helper()
	before, _ := json.Marshal(h.Locals())
	text, ok := do(t, h, tool, arguments)
	require.False(t, ok, text)
	require.Contains(t, text, want)
	after, _ := json.Marshal(h.Locals())
	require.JSONEq(t, string(before), string(after), "what is refused changes nothing")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	start, err := h.BeforeAgent(abi.BeforeAgentInput{Instruction: "Be kind."})
	require.NoError(t, err)
	require.Len(t, start.Tools.Add, 3)
	require.True(
		t,
		strings.HasPrefix(
			*start.Instruction,
			"Be kind.\nWork of more than three steps begins with a plan: write its tasks down with todo_add. ",
		),
	)

	require.Equal(t, "There are no tasks.", works(t, h, "list", `{}`))
	require.Equal(t, "Added:\n#1 [pending] Find a train\n#2 [pending] Book it (after #1)",
		works(t, h, "add", `{"tasks":[{"title":"Find a train","details":"To Rome."},{"title":"Book it","after":[1,1]}]}`))
	require.NoError(t, h.Wipe())
	require.Equal(t, "Added:\n#3 [pending] Pack", works(t, h, "add", `{"tasks":[{"title":"Pack"}]}`))
	refuses(t, h, "update", `{"id":2,"status":"in_progress"}`, "#2 must wait for #1; do these first")
	require.Equal(
		t,
		"#1 [in_progress] Find a train\n\nOpen:\n#1 [in_progress] Find a train\n#2 [pending] Book it (after #1)\n#3 [pending] Pack",
		works(t, h, "update", `{"id":1,"status":"in_progress"}`),
	)
	works(t, h, "update", `{"id":1,"status":"completed"}`)
	require.Equal(
		t,
		"#2 [completed] Book it\n\nOpen:\n#3 [pending] Pack",
		works(t, h, "update", `{"id":2,"status":"completed"}`),
	)
	require.Equal(
		t,
		"#3 [canceled] Pack lightly\n\nNothing is open.",
		works(t, h, "update", `{"id":3,"status":"canceled","title":"Pack lightly","details":"One bag."}`),
	)
	require.Equal(
		t,
		"#1 [completed] Find a train\n#2 [completed] Book it\n#3 [canceled] Pack lightly\n2 of 3 done.",
		works(t, h, "list", ``),
	)
	require.Equal(t, "#3 [canceled] Pack lightly\n\nOne bag.", works(t, h, "list", `{"id":3}`))
	require.Equal(t, "#3 [canceled] Pack lightly", works(t, h, "update", `{"id":3,"details":""}`)[:26])
	require.Equal(t, "Deleted #3.", works(t, h, "update", `{"id":3,"status":"deleted"}`))
	require.Equal(t, "Added:\n#4 [pending] Go", works(t, h, "add", `{"tasks":[{"title":"Go"}]}`), "no id is given twice")

	last := h.Events[len(h.Events)-1]
	require.Equal(t, "plan", last.Name)
	require.JSONEq(
		t,
		`{"tasks":[{"id":1,"title":"Find a train","status":"completed"},{"id":2,"title":"Book it","status":"completed"},{"id":4,"title":"Go","status":"pending"}]}`,
		string(last.Data),
	)
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"max_tasks": 4, "max_in_progress": 1})
	works(t, h, "add", `{"tasks":[{"title":"a"},{"title":"b","after":[1]},{"title":"c","after":[2]}]}`)
	for _, c := range []struct{ tool, arguments, want string }{
		{"add", `{"tasks":[]}`, "tasks: at least one"},
		{"add", `{}`, "tasks: at least one"},
		{"add", `{"tasks":[{"title":" "}]}`, "tasks[0]: title: one line of 1 to 200 bytes"},
		{"add", `{"tasks":[{"title":"a\nb"}]}`, "tasks[0]: title"},
		{"add", `{"tasks":[{"title":"x","details":"` + strings.Repeat("x", 4001) + `"}]}`, "details: at most 4000 bytes"},
		{"add", `{"tasks":[{"title":"x"},{"title":"y"}]}`, "there may be 4 tasks, and there are 3"},
		{"add", `{"tasks":[{"title":"x","after":[9]}]}`, "tasks[0]: after: there is no task #9"},
		{"add", `{"tasks":[{"title":"x","after":[4]}]}`, "task #4 cannot wait for itself"},
		{"add", `{"tasks":[{"name":"x"}]}`, "arguments of todo_add: unknown: tasks[0].name"},
		{"update", `{"id":9}`, "there is no task #9"},
		{"update", `{"id":"../../../etc/passwd"}`, "arguments of todo_update: id: "},
		{"update", `{"id":1.5}`, "arguments of todo_update: id: "},
		{"update", `{"id":1,"status":"bogus"}`, `status: "bogus" is not one of`},
		{"update", `{"id":1,"after":[1]}`, "task #1 cannot wait for itself"},
		{"update", `{"id":1,"after":[3]}`, "after: #1, #3, #2, #1 wait for each other"},
		{"update", `{"id":3,"status":"completed"}`, "#3 must wait for #2"},
		{"list", `{"id":9}`, "there is no task #9"},
	} {
		refuses(t, h, c.tool, c.arguments, c.want)
	}
	works(t, h, "update", `{"id":1,"status":"in_progress"}`)
	works(t, h, "update", `{"id":2,"after":[]}`)
	refuses(t, h, "update", `{"id":2,"status":"in_progress"}`, "1 tasks are in progress, which is the limit")
	_, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "other"}})
	require.ErrorContains(t, err, `there is no tool "other"`)
}

// TestDelete checks that no task depends on a deleted one.
func TestDelete(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	works(t, h, "add", `{"tasks":[{"title":"a"},{"title":"b","after":[1]},{"title":"c","after":[1,2]}]}`)
	works(t, h, "update", `{"id":1,"status":"deleted"}`)
	require.Equal(t, "#2 [pending] b\n#3 [pending] c (after #2)\n0 of 2 done.", works(t, h, "list", `{}`))
}

// TestNoCircles checks that after random updates, dependencies are not circular and refer to
// existing tasks.
func TestNoCircles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		h := newHost(t, nil)
		works(t, h, "add", `{"tasks":[{"title":"a"},{"title":"b"},{"title":"c"},{"title":"d"},{"title":"e"},{"title":"f"}]}`)
		for range 60 {
			after, _ := json.Marshal([]int{1 + r.IntN(6), 1 + r.IntN(6)})
			status := ""
			if r.IntN(20) == 0 {
				status = `,"status":"deleted"`
			}
			do(t, h, "update", fmt.Sprintf(`{"id":%d,"after":%s%s}`, 1+r.IntN(6), after, status))
		}
		var l list
		_, err := h.Local("plan", &l)
		require.NoError(t, err)
		done := map[int]bool{}
		for range len(l.Tasks) {
			for _, task := range l.Tasks {
				ready := !slices.ContainsFunc(task.After, func(id int) bool { return !done[id] })
				done[task.ID] = done[task.ID] || ready
			}
		}
		require.Len(t, done, len(l.Tasks))
		for id, ok := range done {
			require.True(t, ok, "seed %d: task #%d can never be begun", seed, id)
		}
	}
}

// TestReminder checks that the reminder is part of one request only, and that it lists only open
// tasks.
func TestReminder(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"remind_after": 3})
	h.SetMessages(abi.User("hi"))
	reminded := func() bool {
		answer, err := h.BeforeModel(abi.BeforeModelInput{})
		require.NoError(t, err)
		require.Len(t, h.Messages(), 1)
		if answer.Request.Messages.IsZero() {
			return false
		}
		put := answer.Request.Messages.Splice[0]
		require.Equal(t, 1, put.At)
		require.Contains(t, put.Insert[0].Content.String(), "#2 [pending] b")
		require.NotContains(t, put.Insert[0].Content.String(), "#1")
		return true
	}
	require.False(t, reminded())
	works(t, h, "add", `{"tasks":[{"title":"a"},{"title":"b"}]}`)
	works(t, h, "update", `{"id":1,"status":"completed"}`)
	for step, want := range map[int]bool{1: false, 3: false, 4: true, 9: true} {
		h.Run.Step = step
		require.Equal(t, want, reminded(), "step %d", step)
	}
	works(t, h, "update", `{"id":2,"details":"x"}`)
	require.False(t, reminded())
	h.Run.Step = 30
	works(t, h, "update", `{"id":2,"status":"canceled"}`)
	h.Run.Step = 60
	require.False(t, reminded())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		"max_tasks: 0 is not 1 to 500":                     {"max_tasks": 0},
		"max_in_progress and remind_after are not below 0": {"remind_after": -1},
	} {
		h := middlewaretest.New(middleware.Options{}, newPlanner())
		require.ErrorContains(t, h.Configure(config), "config: "+want)
	}
	h := newHost(t, map[string]any{"prefix": "", "instruction": ""})
	start, err := h.BeforeAgent(abi.BeforeAgentInput{Instruction: "Own."})
	require.NoError(t, err)
	require.Equal(t, "add", start.Tools.Add[0].Name)
	require.Nil(t, start.Instruction)
}
