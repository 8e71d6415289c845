package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// A Case is one golden file.
type Case struct {
	Name     string // of the file, without .txtar
	About    string
	Agent    []byte            // agent.yaml, may be empty
	Modules  map[string][]byte // Go sources by name
	Scripts  map[string][]byte // the same modules in TypeScript; some may be missing
	Tools    []Tool
	Messages []abi.Message
	Replies  []scripted.Reply
	Answers  []Answer  // one for each pause
	Expect   []Section // expectations, in the file's order

	archive *txtar.Archive
	path    string
}

// A Tool is one of a case's tools.
type Tool struct {
	Name, Result string
	Fails        bool
	Panics       bool
	Cancels      bool   // cancels the run before it returns
	Streams      bool   // streams the result; "|" separates the chunks; if it fails, the last is the error
	After        string // waits until the result of this tool was reported
}

// An Answer answers the interrupts of one pause.
type Answer struct {
	Call  string // restricts the answer to this tool call; all interrupts if empty
	Value json.RawMessage
}

// A Section is one expectation of a case.
type Section struct {
	Kind  string // request, told, asked, events, client, state or error
	Arg   string
	Text  string
	index int // in the archive
}

// Load reads all cases of a folder, sorted by name.
func Load(folder string) ([]*Case, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no cases in %s", folder)
	}
	var out []*Case
	for _, path := range paths {
		c, err := LoadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// LoadFile reads one case.
func LoadFile(path string) (*Case, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := txtar.Parse(b)
	c := &Case{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), About: strings.TrimSpace(string(a.Comment)),
		Modules: map[string][]byte{}, Scripts: map[string][]byte{}, archive: a, path: path}
	if c.About == "" {
		return nil, fmt.Errorf("the head must say which behaviour the case guards")
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
	if c.Tools == nil {
		c.Tools = []Tool{{Name: "t", Result: "t-ok"}}
	}
	if c.Messages == nil {
		c.Messages = []abi.Message{abi.User("hi")}
	}
	if len(c.Expect) == 0 {
		return nil, fmt.Errorf("nothing is expected: add request, events or state")
	}
	return c, nil
}

// InTypeScript reports whether all modules of the case also exist in TypeScript.
func (c *Case) InTypeScript() bool { return len(c.Scripts) > 0 && len(c.Scripts) == len(c.Modules) }

func (c *Case) file(i int, name string, data []byte) (err error) {
	kind, arg, _ := strings.Cut(name, " ")
	switch {
	case name == "agent.yaml":
		c.Agent = data
	case strings.HasSuffix(name, ".go"):
		c.Modules[strings.TrimSuffix(name, ".go")] = data
	case strings.HasSuffix(name, ".ts"):
		c.Scripts[strings.TrimSuffix(name, ".ts")] = data
	case strings.HasSuffix(name, ".wat"):
	case name == "tools":
		c.Tools, err = parseTools(data)
	case name == "messages":
		c.Messages, err = parseMessages(data)
	case name == "answers":
		for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			a := Answer{Value: json.RawMessage(l)}
			if call, value, ok := strings.Cut(strings.TrimPrefix(l, "#"), " "); ok && l[0] == '#' {
				a = Answer{call, json.RawMessage(value)}
			}
			c.Answers = append(c.Answers, a)
		}
	case name == "model":
		c.Replies, err = parseReplies(data)
	case slices.Contains([]string{"request", "told", "asked", "events", "client", "state", "error"}, kind):
		c.Expect = append(c.Expect, Section{kind, arg, string(data), i})
	default:
		err = fmt.Errorf(
			"a conversation has no such part; want agent.yaml, tools, messages, model, answers, request N, told N, events, state or error",
		)
	}
	return err
}

func lines(data []byte) []string {
	var out []string
	for _, l := range strings.Split(string(data), "\n") {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}

// toolLine matches "name: result", "name! error", "name!! panic", "name after other: result", "name
// cancels: result" and "name streams: chunk|chunk".
var toolLine = regexp.MustCompile(`^(\S+?)(?: after (\S+)| (cancels)| (streams))?(:|!!?) (.*)$`)

func parseTools(data []byte) ([]Tool, error) {
	out := []Tool{}
	for _, l := range lines(data) {
		f := toolLine.FindStringSubmatch(l)
		if f == nil {
			return nil, fmt.Errorf("%q is no tool; want \"name: result\", \"name! error\" or \"name!! panic\"", l)
		}
		if name, ok := strings.CutSuffix(f[1], "!"); ok {
			return nil, fmt.Errorf("%q: a tool that fails is written without a colon: %q", l, name+"! "+f[6])
		}
		out = append(out, Tool{Name: f[1], After: f[2], Cancels: f[3] != "", Streams: f[4] != "",
			Fails: f[5] == "!", Panics: f[5] == "!!", Result: unescape(f[6])})
	}
	return out, nil
}

func parseMessages(data []byte) ([]abi.Message, error) {
	out := []abi.Message{}
	for _, l := range lines(data) {
		m, err := ParseMessage(l)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// parseReplies reads one reply per line: a message, "size N MESSAGE" for a message that is streamed
// in chunks of N characters, or the JSON of package scripted.
func parseReplies(data []byte) ([]scripted.Reply, error) {
	var out []scripted.Reply
	for _, l := range lines(data) {
		if strings.HasPrefix(l, "{") {
			r, err := scripted.Parse([]byte(l))
			if err != nil {
				return nil, err
			}
			out = append(out, r...)
			continue
		}
		size := 0
		if rest, ok := strings.CutPrefix(l, "size "); ok {
			n, message, _ := strings.Cut(rest, " ")
			var err error
			if size, err = strconv.Atoi(n); err != nil {
				return nil, err
			}
			l = message
		}
		m, err := ParseMessage(l)
		if err != nil {
			return nil, err
		}
		r := scripted.Message(m)
		r.Size = size
		out = append(out, r)
	}
	return out, nil
}

// Update replaces the expectations in the case's file that differ from got. It rejects empty
// expectations: a person writes them first, from the rule that the case guards.
func (c *Case) Update(got []string) error {
	changed := false
	for i, s := range c.Expect {
		if s.Same(got[i]) {
			continue
		}
		if strings.TrimSpace(s.Text) == "" {
			return fmt.Errorf("%s: %s is empty: write what you expect first", c.path, s.Kind)
		}
		c.archive.Files[s.index].Data = append(bytes.TrimRight([]byte(got[i]), "\n"), '\n')
		changed = true
	}
	if !changed {
		return nil
	}
	return os.WriteFile(c.path, txtar.Format(c.archive), 0o644)
}
