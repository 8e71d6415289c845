package run

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A pausedFile is the stored form of a run that waits for answers. It does not contain
// the agent: to resume the run, the user names the same modules, model and tools again.
type pausedFile struct {
	Version int           `json:"version"` // 1
	State   *runlog.State `json:"state"`
}

// maxPaused is the maximum size of a paused run's file, in bytes.
const maxPaused = 256 << 20

// save writes a paused run to its file atomically.
func (c *runCommand) save(paused *agent.PausedError) (path string, err error) {
	path = c.pausedPath(paused.State.ID)
	b, err := abijson.Marshal(pausedFile{1, paused.State})
	if err != nil {
		return path, fmt.Errorf("save the paused run: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".paused")
	if err != nil {
		return path, fmt.Errorf("save the paused run in %s: %w", path, cli.Bare(err))
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return path, fmt.Errorf("save the paused run in %s: %w", path, cli.Bare(err))
	}
	return path, nil
}

func (c *runCommand) pausedPath(id string) string { return cmp.Or(c.pausedAt, c.resume, id+".json") }

// readPaused reads a paused run from its file.
func readPaused(path string) (*runlog.State, error) {
	b, err := cli.ReadFile(path, maxPaused)
	if err != nil {
		return nil, err
	}
	var f pausedFile
	if err := json.Unmarshal(b, &f); err != nil || f.State == nil {
		return nil, cli.Usagef("%s is not a paused run; want a file written by a run that exited with code %d",
			path, cli.ExitPaused)
	}
	if f.Version != 1 {
		return nil, cli.Usagef("%s was written by another version of agent-runner", path)
	}
	return f.State, nil
}

// given returns the answers of --answer by interrupt id. An answer that is not JSON is a
// string, except that "approve" and "deny" are decisions.
func (c *runCommand) given() (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, a := range c.answers {
		id, text, ok := strings.Cut(a, "=")
		if !ok || id == "" || out[id] != nil {
			return nil, cli.Usagef("--answer is %q; want ID=ANSWER, one for each interrupt", a)
		}
		out[id] = answerJSON(text)
	}
	return out, nil
}

func answerJSON(text string) json.RawMessage {
	switch text = strings.TrimSpace(text); {
	case text == abi.Approve || text == abi.Reject:
		return json.RawMessage(`{"decision":"` + text + `"}`)
	case jsoncodec.Valid([]byte(text)) == nil:
		return json.RawMessage(text)
	default:
		b, _ := abijson.Marshal(strings.ToValidUTF8(text, "\ufffd"))
		return b
	}
}

// begin starts the run, or resumes the run in the file of --resume.
func (c *runCommand) begin(
	ctx context.Context,
	a *host.Agent,
	messages []abi.Message,
) (iter.Seq2[abi.Event, error], error) {
	if c.resume == "" {
		return a.Run(ctx, host.Input{Messages: messages}), nil
	}
	state, err := readPaused(c.resume)
	if err != nil {
		return nil, err
	}
	answers, err := c.given()
	if err != nil {
		return nil, err
	}
	if pending := state.Pending(); len(answers) == 0 && len(pending) > 0 {
		if answers = c.ask(ctx, pending); answers == nil {
			return nil, cli.Usagef("%s waits for answers: give each one with --answer ID=ANSWER%s", c.resume, waiting(pending))
		}
	}
	if c.otherModules {
		state.Modules = nil
	}
	events, err := a.Resume(agent.AnsweredBy(ctx, hosting.Whoami()), state, answers)
	if pins := (*journal.PinError)(nil); errors.As(err, &pins) {
		return nil, cli.Usagef("%s: %w, or add --changed-modules to use these", c.resume, err)
	}
	if err != nil {
		return nil, cli.Usagef("%s: %w", c.resume, err)
	}
	return events, nil
}

// waiting returns a list of interrupts with their ids, reasons and tool calls, one per line.
func waiting(pending []abi.Pending) string {
	var b strings.Builder
	for _, p := range pending {
		fmt.Fprintf(&b, "\n  %s  %s", p.ID, p.Reason)
		if p.Call != nil {
			fmt.Fprintf(&b, "  %s %s", p.Call.Name, cli.Short(p.Call.Arguments, 200))
		}
	}
	return b.String()
}

// canAsk reports whether the user can be prompted on a terminal.
func (c *runCommand) canAsk() bool {
	in, ok := c.env.In.(*os.File)
	return ok && c.output == "text" && term.IsTerminal(int(in.Fd())) && cli.IsTerminal(c.env.Err)
}

// ask prompts the user for answers on the terminal. It returns nil if there is no
// terminal or an answer is missing.
func (c *runCommand) ask(ctx context.Context, pending []abi.Pending) map[string]json.RawMessage {
	if !c.canAsk() {
		return nil
	}
	lines := make(chan string)
	next := make(chan struct{})
	defer close(next)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(c.env.In)
		for range next {
			if !scanner.Scan() {
				return
			}
			lines <- scanner.Text()
		}
	}()
	read := func(format string, args ...any) (string, bool) {
		c.screen.Prompt(format, args...)
		next <- struct{}{}
		select {
		case line, ok := <-lines:
			return strings.TrimSpace(line), ok
		case <-ctx.Done():
			return "", false
		}
	}
	answers := map[string]json.RawMessage{}
	for _, p := range pending {
		answer, ok := askOne(p, read)
		if !ok {
			return nil
		}
		answers[p.ID] = answer
	}
	return answers
}

// askOne prompts for the answer to one interrupt. At a gate, it repeats the prompt until the answer
// is valid. It returns false if the input ends.
func askOne(p abi.Pending, read func(format string, args ...any) (string, bool)) (json.RawMessage, bool) {
	if p.Hook != abi.HookGateTool {
		line, ok := read("%s answer: ", p.Reason)
		return answerJSON(line), ok
	}
	for {
		line, ok := read("%s [a]pprove, [d]eny, [e]dit: ", p.Reason)
		if !ok {
			return nil, false
		}
		word, rest, _ := strings.Cut(line, " ")
		a := abi.Approval{Message: strings.TrimSpace(rest)}
		switch word {
		case "a", "approve", "y", "yes":
			return json.RawMessage(`{"decision":"approve"}`), true
		case "d", "deny", "n", "no":
			a.Decision = abi.Reject
			b, _ := abijson.Marshal(a)
			return b, true
		case "e", "edit":
			arguments, ok := read("new arguments, as JSON, instead of %s: ", p.Call.Arguments)
			if !ok {
				return nil, false
			}
			if jsoncodec.Valid([]byte(arguments)) == nil && strings.HasPrefix(arguments, "{") {
				b, _ := abijson.Marshal(abi.Approval{Decision: abi.Edit, Arguments: &arguments})
				return b, true
			}
		}
	}
}
