package golden

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// A Case is a golden case, parsed from one file.
type Case struct {
	Name    string                // name of the file, without .txtar
	About   string                // the behavior that the case tests
	Modules map[string][]byte     // Go sources by name
	Scripts map[string][]byte     // TypeScript versions of Modules by name; some may be missing
	Hooks   map[string][]abi.Hook // the hooks of each Go module, sorted

	// Strict makes a tool expect the arguments {} if its line states none. Otherwise the tool
	// accepts any arguments.
	Strict bool

	archive   *txtar.Archive
	arguments map[string][]string // by tool: the arguments that each turn states; "" if a turn states none
	expect    []expectation       // in the file's order
}

// An expectation is a part of a case with the expected output of the host.
type expectation struct {
	kind  string // one of expectations
	arg   string
	text  string
	index int // index of the part in archive.Files
}

// part returns the name of the expectation's part in the case's file, such as "request 2".
func (e *expectation) part() string { return strings.TrimSpace(e.kind + " " + e.arg) }

// Load parses all *.txtar files of a folder, sorted by name. It returns an error if there is none.
func Load(folder fs.FS) ([]*Case, error) {
	names, err := fs.Glob(folder, "*.txtar")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("load cases: the folder has no *.txtar")
	}
	var out []*Case
	for _, name := range names {
		b, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		c, err := Parse(name, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// Parse parses a case. file is the path of the case's file, whose base name without .txtar becomes
// Name.
func Parse(file string, text []byte) (*Case, error) {
	a := txtar.Parse(text)
	c := &Case{Name: strings.TrimSuffix(path.Base(file), ".txtar"), About: strings.TrimSpace(string(a.Comment)),
		Modules: map[string][]byte{}, Scripts: map[string][]byte{}, Hooks: map[string][]abi.Hook{}, archive: a}
	if c.About == "" {
		return nil, errors.New("the head must say which behaviour the case guards")
	}
	for i, f := range a.Files {
		if err := c.file(i, f.Name, f.Data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	for name := range c.Scripts {
		if c.Modules[name] == nil {
			return nil, fmt.Errorf("%s.ts: there is no %s.go that it does the same as", name, name)
		}
	}
	if len(c.expect) == 0 {
		return nil, errors.New("nothing is expected: add request, events or state")
	}
	_, err := c.request()
	return c, err
}

// Names of the parts of a case's file, except modules. An argument may follow a name in
// expectations.
var (
	inputs       = []string{"agent.yaml", "tools", "messages", "model", "answers"}
	expectations = []string{"request", "told", "asked", "events", "client", "state", "error"}
)

// file adds part i of the archive to c if the part is a module, the tools or an expectation. It
// returns an error if a case has no such part. The method request parses the other parts.
func (c *Case) file(i int, name string, data []byte) (err error) {
	kind, arg, _ := strings.Cut(name, " ")
	switch {
	case strings.HasSuffix(name, ".go"):
		stem := strings.TrimSuffix(name, ".go")
		c.Modules[stem] = data
		c.Hooks[stem], err = hooksOf(name, data)
	case strings.HasSuffix(name, ".ts"):
		c.Scripts[strings.TrimSuffix(name, ".ts")] = data
	case name == "tools":
		_, c.arguments, err = parseTools(data)
	case slices.Contains(expectations, kind):
		c.expect = append(c.expect, expectation{kind, arg, string(data), i})
	case strings.HasSuffix(name, ".wat"), slices.Contains(inputs, name):
	default:
		err = fmt.Errorf("a conversation has no such part; want %s", strings.Join(slices.Concat(inputs, expectations), ", "))
	}
	return err
}

// ExpectsEvent reports whether the case expects events of type t, or expects that there are none.
func (c *Case) ExpectsEvent(t abi.EventType) bool {
	return slices.ContainsFunc(c.expect, func(e expectation) bool {
		if e.kind != "events" {
			return false
		}
		if e.arg != "" {
			return slices.Contains(strings.Split(e.arg, ","), string(t))
		}
		return slices.ContainsFunc(strings.Split(e.text, "\n"), func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return name == string(t)
		})
	})
}

// InTypeScript reports whether all modules of the case also exist in TypeScript.
func (c *Case) InTypeScript() bool { return len(c.Scripts) > 0 && len(c.Scripts) == len(c.Modules) }

// Request returns the case as a request to a host. The request names modules as the case does:
// NAME.go for an entry of Modules.
//
// An agent that lists neither middlewares nor agents gets one middleware for each entry of Modules.
// If Modules is empty too, its Middlewares is nil.
func (c *Case) Request() *wire.Request {
	r, err := c.request()
	if err != nil {
		panic(err) // Parse has called request
	}
	return r
}

// request parses the parts of the case's file into a request to a host.
func (c *Case) request() (*wire.Request, error) {
	r := &wire.Request{
		Type: "case", ID: c.Name, RunID: "run",
		Agent:    &wire.Agent{},
		Messages: []abi.Message{abi.User("hi")},
		Tools:    []wire.Tool{{Name: "t", Turns: []wire.Turn{{Text: "t-ok"}}}},
		Model:    []wire.Reply{},
	}
	file := agentFile{}
	for _, f := range c.archive.Files {
		var err error
		switch f.Name {
		case "agent.yaml":
			file, err = parseAgent(f.Data)
		case "tools":
			r.Tools, _, err = parseTools(f.Data)
		case "messages":
			r.Messages, err = parseMessages(f.Data)
		case "answers":
			r.Answers, err = parseAnswers(f.Data)
		case "model":
			r.Model, err = parseReplies(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	for _, e := range c.expect {
		r.Client = r.Client || e.kind == "client"
	}
	r.Runs = file.Runs
	var err error
	for key, value := range file.Metadata {
		if r.Metadata == nil {
			r.Metadata = map[string]abi.JSON{}
		}
		if r.Metadata[key], err = abijson.Marshal(value); err != nil {
			return nil, err
		}
	}
	if r.Agent, err = file.agent(c); err == nil && file.Resumed != nil {
		r.Resumed, err = file.Resumed.agent(c)
	}
	return r, err
}

// Update returns the text of the case's file, with each differing expectation replaced by the
// host's output. It returns an error for an expectation that is empty, since its first text must be
// written by hand. It also returns an error if o shows a defect of the case itself; see
// [Case.Defect].
func (c *Case) Update(o *wire.Outcome) ([]byte, error) {
	differences, err := c.Compare(o, true)
	if err != nil {
		return nil, err
	}
	if defect := c.Defect(o); defect != "" && len(differences) > 0 {
		return nil, fmt.Errorf("%s: %s", c.Name, defect)
	}
	a := &txtar.Archive{Comment: c.archive.Comment, Files: slices.Clone(c.archive.Files)}
	for _, d := range differences {
		if d.Part == toolsPart {
			return nil, fmt.Errorf(
				"%s: state the arguments that the tools receive, as in \"t {\\\"a\\\":1}: t-ok\": %s",
				c.Name,
				d,
			)
		}
		if d.Part == notStarted {
			return nil, fmt.Errorf("%s: the agent cannot be built: %s", c.Name, d.Got)
		}
		i := slices.IndexFunc(c.expect, func(e expectation) bool { return e.part() == d.Part })
		if i < 0 || strings.TrimSpace(c.expect[i].text) == "" {
			return nil, fmt.Errorf("%s: %s is empty: write what you expect first", c.Name, d.Part)
		}
		a.Files[c.expect[i].index].Data = append(bytes.TrimRight([]byte(d.Got), "\n"), '\n')
	}
	return txtar.Format(a), nil
}

// Defect describes a defect of the case itself, according to a host's report: the model has too few
// replies, or the case expects a model call that did not take place. It returns "" if it finds
// none.
func (c *Case) Defect(o *wire.Outcome) string {
	calls, replies := len(o.ModelCalls), len(c.Request().Model)
	if o.Refused != "" {
		return ""
	}
	if calls > replies {
		return fmt.Sprintf("model call %d has no reply: add one to the part model, "+
			"or find out why the agent calls the model again", replies+1)
	}
	for _, e := range c.expect {
		if n, err := strconv.Atoi(e.arg); err == nil && (e.kind == "request" || e.kind == "told") && n > calls {
			return fmt.Sprintf("%s: model call %d did not take place", e.part(), n)
		}
	}
	return ""
}

// Unused describes the first reply of the model that the run did not use, according to a host's report.
// It returns "" if the run used all of them.
func (c *Case) Unused(o *wire.Outcome) string {
	calls, replies := len(o.ModelCalls), len(c.Request().Model)
	if o.Refused != "" || calls >= replies {
		return ""
	}
	return fmt.Sprintf("reply %d of the part model was not used: model calls: %d, replies: %d; "+
		"remove it, or find out why the run ended before it", calls+1, calls, replies)
}

// ModuleNames returns the names of the case's Go modules, sorted.
func (c *Case) ModuleNames() []string { return slices.Sorted(maps.Keys(c.Modules)) }
