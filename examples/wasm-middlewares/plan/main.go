// Command plan is a middleware that gives the model a to-do list: tools that add, change
// and show tasks, and a reminder of open ones.
package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "plan",
		Version:     "1.0.0",
		Description: "Gives the model a to-do list for the run.",
	}, newPlanner())
}

func main() {}

func newPlanner() *planner {
	return &planner{
		Prefix: "todo_", MaxTasks: 50, RemindAfter: 5,
		Instruction: "Work of more than three steps begins with a plan: write its tasks down with {prefix}add. " +
			"Say with {prefix}update when you begin a task and when it is done, and show the list with {prefix}list when you are unsure.",
	}
}

// noted returns the run-local value that holds the plan. Each entry of the chain has its own plan.
// Other modules of the ring can read the plan, for example to check for open tasks.
func noted(ctx *middleware.Context) middleware.Local[list] {
	return middleware.Local[list](abi.SharedPrefix + "plan/" + ctx.Entry)
}

type planner struct {
	Prefix        string `json:"prefix" doc:"what the names of the tools begin with"`
	MaxTasks      int    `json:"max_tasks" doc:"the maximum number of tasks"`
	MaxInProgress int    `json:"max_in_progress" doc:"the maximum number of tasks in progress; 0: no limit"`
	RemindAfter   int    `json:"remind_after" doc:"remind the model of open tasks when it has not changed the list for so many steps; 0: never"`
	Instruction   string `json:"instruction" doc:"a text for the instruction, {prefix} standing for the prefix"`

	tools []middleware.Tool
}

// Configure validates the configuration.
func (p *planner) Configure(*middleware.Context) error {
	switch {
	case p.MaxTasks < 1 || p.MaxTasks > 500:
		return invalid("max_tasks: %d is not 1 to 500", p.MaxTasks)
	case p.MaxInProgress < 0 || p.RemindAfter < 0:
		return invalid("max_in_progress and remind_after are not below 0")
	}
	p.tools = []middleware.Tool{
		middleware.NewTool(p.Prefix+"add", "Appends tasks to the to-do list.", p.add),
		middleware.NewTool(p.Prefix+"update", "Changes a task of the to-do list. Omitted fields are unchanged.", p.update),
		middleware.NewTool(p.Prefix+"list", "Shows the to-do list, or all that is known of one task.", p.list),
	}
	p.tools[2].Idempotent = true
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}
