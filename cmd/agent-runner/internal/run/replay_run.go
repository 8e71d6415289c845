package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// A Replay replays a stored run with one module replaced. The model and the tools
// give their recorded answers.
type Replay struct {
	Env                      *cli.Env
	Id, Path, Entry, StoreAt string
	Output, CacheDir         string
	Chosen                   bool
}

// A runDiff is the difference between a run and its replay.
type runDiff struct {
	Run    string     `json:"run"`
	Entry  string     `json:"entry"`
	Digest string     `json:"digest"` // of the replaced module
	Same   bool       `json:"same"`
	Lines  []diffLine `json:"lines"`
	Note   string     `json:"note,omitempty"` // why the replay ended early
}

// A diffLine is the summary of an event. Op is " " for both runs, "-" for the original
// run and "+" for the replay.
type diffLine struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// Do replays the run and prints the difference.
func (p *Replay) Do(ctx context.Context) error {
	ctx, stop := cli.Interruptible(ctx, func() {})
	defer stop()
	runs := &runsCommand{env: p.Env}
	var err error
	at := cmp.Or(p.StoreAt, p.Env.Getenv(hosting.EnvStore), hosting.DefaultStore)
	if runs.store, err = hosting.OpenExistingStore(ctx, p.Env, at); err != nil {
		return err
	}
	defer runs.store.Close()
	x, err := runs.read(ctx, p.Id)
	if err != nil {
		return err
	}
	if err := checkAnswers(x); err != nil {
		return err
	}
	file, _, err := fileOf(x.Run)
	if err != nil {
		return err
	}
	diff := &runDiff{Run: p.Id}
	if diff.Entry, diff.Digest, err = p.which(x.Run); err != nil {
		return err
	}
	path, err := hosting.Buildable(ctx, p.Env, p.Path)
	if err != nil {
		return cli.BeforeRun(ctx, err)
	}
	wasm, err := cli.ReadFile(path, maxModule)
	if err != nil {
		return err
	}
	stored := storedModule(runs.store, x.Run)
	rec := newRecorded(x)
	o := &host.FileOptions{
		Model: rec,
		Tools: rec.tools(),
		ReadModule: func(ctx context.Context, entry, path string) ([]byte, error) {
			if entry == diff.Entry {
				return wasm, nil
			}
			return stored(ctx, entry, path)
		},
	}
	r := &runCommand{env: p.Env, cacheDir: p.CacheDir, chosen: p.Chosen, screen: cli.NewScreen(p.Env)}
	err = r.withAgent(ctx, file, o, func(a *host.Agent) error {
		events, err := rec.again(ctx, a, x)
		diff.Lines, diff.Note = compareEvents(x.Events, events), rec.note
		return err
	})
	if err != nil {
		return cli.BeforeRun(ctx, err)
	}
	diff.Same = !slices.ContainsFunc(diff.Lines, func(l diffLine) bool { return l.Op != " " })
	return p.show(diff)
}

// checkAnswers returns an error if the run's recorded answers were erased.
func checkAnswers(x *exported) error {
	for _, p := range x.History.Phases {
		for _, d := range p.Deeds {
			if d.Erased && (d.What == "model" || d.What == "tool") {
				return fmt.Errorf("replay run %s: its recorded answers were erased, because modules changed or removed text; "+
					"to replay such runs, store them with --keep-originals", x.Run.ID)
			}
		}
	}
	return nil
}

// which returns the entry whose module is replaced, and that module's digest.
func (p *Replay) which(r *journal.RunInfo) (entry, digest string, err error) {
	name := cmp.Or(p.Entry, agentfile.EntryName(p.Path))
	var names []string
	for _, pin := range r.Modules {
		if pin.Entry == name {
			return name, pin.Digest, nil
		}
		names = append(names, pin.Entry)
	}
	if p.Entry == "" && len(r.Modules) == 1 {
		return r.Modules[0].Entry, r.Modules[0].Digest, nil
	}
	return "", "", cli.Usagef("run %s had no module %q%s; choose one with --entry", r.ID, name, cli.Among(name, names))
}

// show prints the difference. It returns an error if the runs differ.
func (p *Replay) show(d *runDiff) error {
	var err error
	if p.Output == "json" {
		err = cli.PrintJSON(p.Env, d)
	} else {
		_, err = fmt.Fprint(p.Env.Out, d.text())
	}
	if err == nil && !d.Same {
		err = cli.Ended(cli.ExitFailed, errors.New("the run would have been different"))
	}
	return err
}

// diffContext is the number of equal lines shown around a difference.
const diffContext = 2

func (d *runDiff) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s with another %s (was sha256:%s)\n", d.Run, d.Entry, cli.Short(d.Digest, 13))
	skipped := false
	for i, l := range d.Lines {
		near := slices.ContainsFunc(d.Lines[max(0, i-diffContext):min(len(d.Lines), i+diffContext+1)],
			func(l diffLine) bool { return l.Op != " " })
		if !near {
			skipped = true
			continue
		}
		if skipped {
			out.WriteString("  …\n")
			skipped = false
		}
		out.WriteString(l.Op + " " + cli.Clean(l.Text) + "\n")
	}
	if d.Note != "" {
		fmt.Fprintf(&out, "\n%s\n", cli.Clean(d.Note))
	}
	if d.Same {
		out.WriteString("the same run\n")
	}
	return out.String()
}

// recorded is a model that gives the recorded answers of a run, and the results of its tools.
type recorded struct {
	mu      sync.Mutex
	models  []abi.Response
	results map[string]abi.Result // by call id
	failed  map[string]*abi.Error
	called  map[string]string // arguments, by the id of the call
	declare []abi.Tool
	answers map[string]json.RawMessage
	note    string
}

func newRecorded(x *exported) *recorded {
	r := &recorded{
		results: map[string]abi.Result{},
		failed:  map[string]*abi.Error{},
		called:  map[string]string{},
		answers: x.History.Answers,
	}
	for _, p := range x.History.Phases {
		for i := range p.Deeds {
			d := &p.Deeds[i]
			var res abi.Response
			var result abi.Result
			switch {
			case d.What == "model" && d.Done && json.Unmarshal(d.Answer, &res) == nil:
				r.models = append(r.models, res)
			case d.What == "tool" && d.Failed != nil:
				r.failed[d.Call] = d.Failed
			case d.What == "tool" && d.Done && json.Unmarshal(d.Answer, &result) == nil:
				r.results[d.Call] = result
			}
		}
	}
	for _, e := range x.Events {
		if e.Type == abi.EventToolResult {
			r.called[e.Call.ID] = e.Call.Arguments
		}
	}
	for _, t := range x.History.State.Tools {
		if t.Owner == "host" {
			r.declare = append(r.declare, t)
		}
	}
	return r
}

// Generate implements [model.Model].
func (r *recorded) Generate(_ context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.models) == 0 {
		r.note = "The replay stops here: it needs another model answer, and the run recorded no more."
		return nil, model.Errorf(abi.CodeModel, "the run recorded no more model answers")
	}
	res := r.models[0]
	r.models = r.models[1:]
	if sink != nil {
		for _, c := range res.Message.Chunks() {
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	return &res, nil
}

func (r *recorded) tools() []tool.Tool {
	out := []tool.Tool{}
	for _, d := range r.declare {
		d.Owner = ""
		out = append(out, tool.Func(d, r.call))
	}
	return out
}

// call returns the recorded result or error of a tool call. It fails if the run did not make the
// call, or made it with other arguments.
func (r *recorded) call(_ context.Context, c abi.Call) (*abi.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, ok := r.results[c.ID]
	switch {
	case r.failed[c.ID] != nil:
		return nil, r.failed[c.ID]
	case !ok:
		return nil, fmt.Errorf("the run did not make this call, so its result is unknown")
	case r.called[c.ID] != c.Arguments:
		return nil, fmt.Errorf("the run made this call with other arguments, so its result is unknown")
	}
	return &result, nil
}

// again replays the run, resumes it after pauses with the recorded answers, and returns its events.
func (r *recorded) again(ctx context.Context, a *host.Agent, x *exported) ([]abi.Event, error) {
	events := a.Run(ctx,
		host.Input{Messages: x.History.Input, RunID: x.Run.ID, Parent: x.Run.Parent, Metadata: x.History.State.Metadata})
	var out []abi.Event
	for {
		var paused *agent.PausedError
		for e, err := range events {
			out = append(out, e)
			errors.As(err, &paused)
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if paused == nil {
			return out, nil
		}
		answers := map[string]json.RawMessage{}
		for _, p := range paused.Interrupts {
			if a, ok := r.answers[p.ID]; ok {
				answers[p.ID] = a
			}
		}
		if len(answers) == 0 {
			if x.Run.Status == journal.StatusFinished {
				r.note = "The replay stops here: the run would wait for an answer that was never given."
			}
			return out, nil
		}
		var err error
		if events, err = a.Resume(ctx, paused.State, answers); err != nil {
			return out, err
		}
	}
}

// eventText summarizes an event by its deterministic parts. It returns "" for events
// that are not compared.
func eventText(e *abi.Event) string {
	text := func(v any) string {
		b, _ := abijson.Marshal(v)
		return cli.OneLine(cli.Short(string(b), showLong))
	}
	switch e.Type {
	case abi.EventStepStarted:
		return fmt.Sprintf("step %d", e.Step)
	case abi.EventMessage:
		calls := ""
		for _, c := range e.Message.ToolCalls {
			calls += fmt.Sprintf(" [%s %s]", c.Function.Name, c.Function.Arguments)
		}
		return "message: " + cli.OneLine(contentText(e.Message.Content)) + calls
	case abi.EventToolCall:
		return fmt.Sprintf("call %s %s", e.Call.Name, e.Call.Arguments)
	case abi.EventToolResult:
		return fmt.Sprintf("result of %s %s by %s: %s", e.Call.Name, e.Call.Arguments, e.Source,
			cli.OneLine(contentText(e.Result.Content)))
	case abi.EventCustom:
		return fmt.Sprintf("%s says %s %s", e.Entry, e.Name, cli.OneLine(string(e.Data)))
	case abi.EventFault:
		return fmt.Sprintf("%s faults in %s: %s (%s)", e.Entry, e.Hook, e.Cause, e.Action)
	case abi.EventLimit:
		return fmt.Sprintf("limit %s: %s", e.Limit, e.Action)
	case abi.EventRunPaused:
		var reasons []string
		for _, p := range e.Interrupts {
			reasons = append(reasons, p.Reason)
		}
		return "waits: " + strings.Join(reasons, "; ")
	case abi.EventRunFinished:
		line := "ends: " + e.FinishReason
		if e.Message != nil {
			line += ": " + cli.OneLine(contentText(e.Message.Content))
		}
		if e.Error != nil {
			line += ": " + text(e.Error)
		}
		return line + cli.After(" by ", e.StoppedBy)
	default:
		return ""
	}
}

// compareEvents returns a line diff of the events of two runs.
func compareEvents(before, now []abi.Event) []diffLine {
	a, b := eventTexts(before), eventTexts(now)
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	out := lines(nil, " ", a[:begin])
	out = compareLines(out, a[begin:len(a)-end], b[begin:len(b)-end])
	return lines(out, " ", a[len(a)-end:])
}

func lines(out []diffLine, op string, texts []string) []diffLine {
	for _, text := range texts {
		out = append(out, diffLine{op, text})
	}
	return out
}

// maxCompared is the maximum number of pairs of events that compareLines compares. Beyond it, all
// of these events count as different.
const maxCompared = 1 << 22

// compareLines appends a line diff of a and b to out, by their longest common
// subsequence.
func compareLines(out []diffLine, a, b []string) []diffLine {
	if len(a)*len(b) > maxCompared {
		return lines(lines(out, "-", a), "+", b)
	}
	// lengths[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, diffLine{" ", a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lengths[i+1][j] >= lengths[i][j+1]:
			out = append(out, diffLine{"-", a[i]})
			i++
		default:
			out = append(out, diffLine{"+", b[j]})
			j++
		}
	}
	return out
}

// eventTexts returns the summaries of the compared events.
func eventTexts(events []abi.Event) []string {
	var out []string
	for i := range events {
		if text := eventText(&events[i]); text != "" {
			out = append(out, text)
		}
	}
	return out
}
