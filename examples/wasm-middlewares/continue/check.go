package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A check is one condition for an answer. Exactly one of its first four keys is set.
type check struct {
	Must    string   `json:"must" doc:"a regular expression (RE2) that the answer must match"`
	MustNot string   `json:"must_not" doc:"a regular expression (RE2) that the answer must not match"`
	Called  string   `json:"called" doc:"a tool that must have been called in this run, without an error; * stands for any characters"`
	Plan    string   `json:"plan" doc:"the name of an entry of plan: none of its tasks may be open"`
	After   []string `json:"after" doc:"with called: it is asked for only when one of these tools was called, and must have been called in a later step; * stands for any characters"`
	Say     string   `json:"say" doc:"the message to the model if the check fails"`

	kind    string // one of the four keys
	pattern *regexp.Regexp
}

// maxShown is the maximum number of open tasks in a message to the model.
const maxShown = 20

// prepare validates the check and compiles its pattern.
func (c *check) prepare() (err error) {
	n, pattern := 0, ""
	for kind, value := range map[string]string{"must": c.Must, "must_not": c.MustNot, "called": c.Called, "plan": c.Plan} {
		if value != "" {
			c.kind, pattern = kind, value
			n++
		}
	}
	switch {
	case n != 1:
		return errors.New("want one of must, must_not, called, plan")
	case len(c.After) > 0 && c.Called == "":
		return errors.New("after: goes with called")
	case c.Must != "" || c.MustNot != "":
		c.pattern, err = regexp.Compile(pattern)
	}
	return err
}

// missing returns the message that tells the model why the check fails, or "" if it passes.
func (c *check) missing(ctx *middleware.Context, answer string) (string, error) {
	text, err := "", error(nil)
	switch c.kind {
	case "must":
		if !c.pattern.MatchString(answer) {
			text = middleware.Sprintf("The answer must match this regular expression: %s", c.Must)
		}
	case "must_not":
		if c.pattern.MatchString(answer) {
			text = middleware.Sprintf("The answer must not match this regular expression: %s", c.MustNot)
		}
	case "called":
		text, err = c.uncalled(ctx)
	case "plan":
		return c.open(ctx)
	}
	if text != "" && c.Say != "" {
		text = c.Say
	}
	return text, err
}

// A call holds the step numbers of the latest calls of a tool.
type call struct {
	Called int `json:"called"`
	Worked int `json:"worked,omitempty"` // latest call without an error; 0: never
}

// calls holds the calls of the run by tool name.
var calls = middleware.Local[map[string]call]("deeds")

// uncalled returns a message to the model if the tool was not called as required, and "" otherwise.
// The call must be in a later step than the calls of the tools in After, because calls of one step
// may run concurrently.
func (c *check) uncalled(ctx *middleware.Context) (string, error) {
	all, _, err := calls.Get(ctx)
	if err != nil {
		return "", err
	}
	worked, after, which := 0, 0, ""
	for name, d := range all {
		if names.Match([]string{c.Called}, name) {
			worked = max(worked, d.Worked)
		}
		if names.Match(c.After, name) && (d.Called > after || d.Called == after && name < which) {
			after, which = d.Called, name
		}
	}
	switch {
	case worked > after, len(c.After) > 0 && after == 0:
		return "", nil
	case after == 0:
		return middleware.Sprintf("Call %s, so that it succeeds.", c.Called), nil
	default:
		return middleware.Sprintf("Call %s after the last call of %s, so that it succeeds.", c.Called, which), nil
	}
}

// planned is the part of a stored plan of the module plan that this module reads. Another module of
// the ring may have written the value, so its contents are not trusted.
type planned struct {
	Tasks []struct {
		ID     int    `json:"id"`
		Title  string `json:"title"`
		Status string `json:"status"`
	} `json:"tasks"`
}

// open returns a message that lists the open tasks, or "" if there are none.
func (c *check) open(ctx *middleware.Context) (string, error) {
	list, _, err := middleware.Local[planned](abi.SharedPrefix + "plan/" + c.Plan).Get(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, t := range list.Tasks {
		if t.Status == "pending" || t.Status == "in_progress" {
			lines = append(lines, middleware.Sprintf("  #%d [%s] %s", t.ID, t.Status, strings.ReplaceAll(t.Title, "\n", " ")))
		}
	}
	if len(lines) == 0 {
		return "", nil
	}
	if n := len(lines) - maxShown; n > 0 {
		lines = append(lines[:maxShown], middleware.Sprintf("  and %d more", n))
	}
	say := c.Say
	if say == "" {
		say = "These tasks of your plan are open; do them, or cancel those that are not needed:"
	}
	return say + "\n" + strings.Join(lines, "\n"), nil
}
