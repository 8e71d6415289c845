package main

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// The states of a task. A deleted task is removed from the list.
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
	canceled   = "canceled"
	deleted    = "deleted"
)

const (
	maxTitle   = 200  // bytes
	maxDetails = 4000 // bytes
)

// A task is one item of the plan.
type task struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Details string `json:"details,omitempty"`
	Status  string `json:"status"`
	After   []int  `json:"after,omitempty"` // dependencies
}

func (t *task) open() bool { return t.Status == pending || t.Status == inProgress }

// A list is a plan. IDs count up and are never reused.
type list struct {
	Tasks []task `json:"tasks"`
	Last  int    `json:"last"` // the last ID in use
	Step  int    `json:"step"` // the step of the last change
}

// find returns the task with the given ID. It fails if there is none.
func (l *list) find(id int) (*task, error) {
	for i := range l.Tasks {
		if l.Tasks[i].ID == id {
			return &l.Tasks[i], nil
		}
	}
	return nil, middleware.Errorf("there is no task #%d", id)
}

// check validates a task's title, details, status and dependencies.
func (l *list) check(t *task) error {
	switch {
	case strings.TrimSpace(t.Title) == "" || len(t.Title) > maxTitle || strings.Contains(t.Title, "\n"):
		return middleware.Errorf("title: one line of 1 to %d bytes", maxTitle)
	case len(t.Details) > maxDetails || !utf8.ValidString(t.Details):
		return middleware.Errorf("details: at most %d bytes", maxDetails)
	case !slices.Contains([]string{pending, inProgress, completed, canceled}, t.Status):
		return middleware.Errorf("status: %q is not one of pending, in_progress, completed, canceled, deleted", t.Status)
	}
	for _, id := range t.After {
		if id == t.ID {
			return middleware.Errorf("after: task #%d cannot wait for itself", id)
		}
		if _, err := l.find(id); err != nil {
			return middleware.Errorf("after: %w", err)
		}
	}
	return nil
}

// cycle returns the path of a circular dependency that includes start, or nil.
func (l *list) cycle(start int) []int {
	var path []int
	visited := map[int]bool{}
	var visit func(id int) bool
	visit = func(id int) bool {
		if id == start && len(path) > 0 {
			return true
		}
		if visited[id] {
			return false
		}
		visited[id] = true
		path = append(path, id)
		if t, err := l.find(id); err == nil {
			for _, next := range t.After {
				if visit(next) {
					return true
				}
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if visit(start) {
		return append(path, start)
	}
	return nil
}

// waits returns the dependencies of t that are still open.
func (l *list) waits(t *task) []int {
	var out []int
	for _, id := range t.After {
		if other, err := l.find(id); err == nil && other.open() {
			out = append(out, id)
		}
	}
	return out
}

// remove deletes a task, and removes it from the dependencies of others.
func (l *list) remove(id int) {
	l.Tasks = slices.DeleteFunc(l.Tasks, func(t task) bool { return t.ID == id })
	for i := range l.Tasks {
		l.Tasks[i].After = slices.DeleteFunc(l.Tasks[i].After, func(other int) bool { return other == id })
	}
}

// count returns the number of tasks in one of these states.
func (l *list) count(states ...string) int {
	n := 0
	for i := range l.Tasks {
		if slices.Contains(states, l.Tasks[i].Status) {
			n++
		}
	}
	return n
}

// line formats the task as a line: "#2 [pending] Book the train (after #1)".
func (l *list) line(t *task) string {
	s := middleware.Sprintf("#%d [%s] %s", t.ID, t.Status, t.Title)
	if waits := l.waits(t); len(waits) > 0 && t.open() {
		s += " (after " + refs(waits) + ")"
	}
	return s
}

// String formats the list, one task per line.
func (l *list) String() string {
	var b strings.Builder
	for i := range l.Tasks {
		b.WriteString(l.line(&l.Tasks[i]) + "\n")
	}
	return b.String()
}

func refs(ids []int) string {
	var out []string
	for _, id := range ids {
		out = append(out, "#"+strconv.Itoa(id))
	}
	return strings.Join(out, ", ")
}
