package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// BeforeAgent registers the tools, and adds their purpose to the instruction.
func (p *planner) BeforeAgent(_ *middleware.Context, run *middleware.AgentStart) error {
	for _, t := range p.tools {
		if err := run.AddTool(t.Tool); err != nil {
			return middleware.Errorf("%w; give the tools of this module other names, with the key prefix", err)
		}
	}
	run.AddInstruction(strings.ReplaceAll(p.Instruction, "{prefix}", p.Prefix))
	return nil
}

// BeforeModel reminds the model of open tasks. The reminder is part of this request only,
// not of the conversation.
func (p *planner) BeforeModel(ctx *middleware.Context, call *middleware.ModelStart) error {
	l, _, err := noted(ctx).Get(ctx)
	if err != nil || p.RemindAfter == 0 || l.count(pending, inProgress) == 0 || ctx.Run.Step-l.Step < p.RemindAfter {
		return err
	}
	call.Messages.Append(
		abi.User(
			"(A reminder, not from the user: these tasks of your plan are not done. Go on with them, or change the plan.)\n" + openTasks(
				&l,
			),
		),
	)
	return nil
}

func openTasks(l *list) string {
	var b strings.Builder
	for i := range l.Tasks {
		if t := &l.Tasks[i]; t.open() {
			b.WriteString(l.line(t) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// CallTool runs one of the tools.
func (p *planner) CallTool(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
	for _, t := range p.tools {
		if t.Name == call.Name {
			return t.Run(ctx, call)
		}
	}
	return nil, &abi.Error{Code: abi.CodeNotFound, Message: middleware.Sprintf("there is no tool %q", call.Name)}
}

// A refused is a mistake of the model: the model gets the error, and nothing changes.
type refused struct{ error }

// change updates the plan atomically, even with concurrent calls, and emits an event. fn
// returns the result for the model.
func (p *planner) change(ctx *middleware.Context, fn func(l *list) (string, error)) (*abi.Result, error) {
	var text string
	var now list
	err := noted(ctx).Update(ctx, func(l list) (list, error) {
		var err error
		if text, err = fn(&l); err != nil {
			return l, refused{err}
		}
		l.Step = ctx.Run.Step
		now = l
		return l, nil
	})
	var no refused
	if errors.As(err, &no) {
		return abi.ErrorResult(no.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	return abi.TextResult(text), ctx.Emit("plan", shown(&now))
}

// shown returns the plan for an event, without details.
func shown(l *list) map[string]any {
	tasks := []map[string]any{}
	for i := range l.Tasks {
		t := &l.Tasks[i]
		tasks = append(tasks, map[string]any{"id": t.ID, "title": t.Title, "status": t.Status})
	}
	return map[string]any{"tasks": tasks}
}

type newTask struct {
	Title   string `json:"title" doc:"one line"`
	Details string `json:"details,omitempty" doc:"what to know of it"`
	After   []int  `json:"after,omitempty" doc:"numbers of tasks that must be done before, those of this call among them: the first that it adds has the next free number"`
}

type addArgs struct {
	Tasks []newTask `json:"tasks" doc:"in the order in which they are to be done"`
}

// add implements the tool that appends tasks. It appends all tasks of a call or, if one is invalid,
// none.
func (p *planner) add(ctx *middleware.Context, args addArgs) (*abi.Result, error) {
	return p.change(ctx, func(l *list) (string, error) {
		if len(args.Tasks) == 0 {
			return "", errors.New("tasks: at least one")
		}
		if len(l.Tasks)+len(args.Tasks) > p.MaxTasks {
			return "", middleware.Errorf(
				"there may be %d tasks, and there are %d; delete what is no longer needed",
				p.MaxTasks,
				len(l.Tasks),
			)
		}
		first := len(l.Tasks)
		for _, t := range args.Tasks {
			l.Last++
			l.Tasks = append(
				l.Tasks,
				task{ID: l.Last, Title: t.Title, Details: t.Details, Status: pending, After: unique(t.After)},
			)
		}
		var b strings.Builder
		b.WriteString("Added:")
		for i := first; i < len(l.Tasks); i++ {
			t := &l.Tasks[i]
			if err := l.check(t); err != nil {
				return "", middleware.Errorf("tasks[%d]: %w", i-first, err)
			}
			if path := l.cycle(t.ID); path != nil {
				return "", middleware.Errorf("tasks[%d]: after: %s wait for each other", i-first, refs(path))
			}
			b.WriteString("\n" + l.line(t))
		}
		return b.String(), nil
	})
}

type updateArgs struct {
	ID      int     `json:"id" doc:"the task's number"`
	Status  string  `json:"status,omitempty" doc:"pending, in_progress, completed, canceled or deleted"`
	Title   string  `json:"title,omitempty"`
	Details *string `json:"details,omitempty"`
	After   []int   `json:"after,omitempty" doc:"numbers of all tasks that must be done before; [] for none"`
}

func (p *planner) update(ctx *middleware.Context, args updateArgs) (*abi.Result, error) {
	return p.change(ctx, func(l *list) (string, error) {
		t, err := l.find(args.ID)
		if err != nil {
			return "", err
		}
		if args.Status == deleted {
			l.remove(args.ID)
			return middleware.Sprintf("Deleted #%d.", args.ID), nil
		}
		if args.Title != "" {
			t.Title = args.Title
		}
		if args.Details != nil {
			t.Details = *args.Details
		}
		if args.After != nil {
			t.After = unique(args.After)
		}
		before := t.Status
		if args.Status != "" {
			t.Status = args.Status
		}
		if err := l.check(t); err != nil {
			return "", err
		}
		if path := l.cycle(t.ID); path != nil {
			return "", middleware.Errorf("after: %s wait for each other", refs(path))
		}
		if err := p.checkStatus(l, t, before); err != nil {
			return "", err
		}
		if open := openTasks(l); open != "" {
			return l.line(t) + "\n\nOpen:\n" + open, nil
		}
		return l.line(t) + "\n\nNothing is open.", nil
	})
}

// checkStatus returns an error if t must not have its new status: because it must wait for other
// tasks, or because too many tasks are in progress. before is the task's old status.
func (p *planner) checkStatus(l *list, t *task, before string) error {
	if t.Status == before || t.Status != inProgress && t.Status != completed {
		return nil
	}
	if waits := l.waits(t); len(waits) > 0 {
		return middleware.Errorf(
			"#%d must wait for %s; do these first, or change what it waits for with after",
			t.ID,
			refs(waits),
		)
	}
	if n := l.count(inProgress); t.Status == inProgress && p.MaxInProgress > 0 && n > p.MaxInProgress {
		return middleware.Errorf("%d tasks are in progress, which is the limit; complete one first", p.MaxInProgress)
	}
	return nil
}

// unique returns ids without duplicates. It preserves nil, which means no change, unlike an empty
// list.
func unique(ids []int) []int {
	if ids == nil {
		return nil
	}
	out := []int{}
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

type listArgs struct {
	ID int `json:"id,omitempty" doc:"of one task; without it, all"`
}

// list implements the tool that shows one task or the whole list.
func (p *planner) list(ctx *middleware.Context, args listArgs) (*abi.Result, error) {
	l, _, err := noted(ctx).Get(ctx)
	switch {
	case err != nil:
		return nil, err
	case args.ID != 0:
		t, err := l.find(args.ID)
		if err != nil {
			return abi.ErrorResult(err.Error()), nil
		}
		return abi.TextResult(strings.TrimSpace(l.line(t) + "\n\n" + t.Details)), nil
	case len(l.Tasks) == 0:
		return abi.TextResult("There are no tasks."), nil
	default:
		return abi.TextResult(middleware.Sprintf("%s%d of %d done.", l.String(), l.count(completed), len(l.Tasks))), nil
	}
}
