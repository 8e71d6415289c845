package agentfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
)

// An Agent is a sub-agent. The enclosing agent can run it as a tool, or transfer the conversation
// to it.
type Agent struct {
	Name        string  `json:"name" jsonschema:"The agent's name, unique among agents and tools. The model chooses agents by name and description."`
	Description string  `json:"description,omitempty" jsonschema:"The purpose of the agent. The model chooses agents by name and description."`
	As          use     `json:"as,omitempty" jsonschema:"tool: each call is a separate run, whose answer is the result of the call (default). transfer: the conversation can be transferred to the agent, from this agent and from its other transfer agents, and back."`
	File        Path    `json:"file,omitempty" jsonschema:"The agent's own agent.yaml."`
	Agent       *Inline `json:"agent,omitempty" jsonschema:"The agent, inline instead of in a file."`

	loaded *File
}

// Inline is a sub-agent's file inside the enclosing agent's file.
type Inline File

// A use is the way in which an agent uses a sub-agent: as a tool, or as an agent to which it
// transfers the conversation.
type use string

// Uses of a sub-agent.
const (
	useTool     use = "tool"
	UseTransfer use = "transfer"
)

var uses = []string{string(useTool), string(UseTransfer)}

// UnmarshalText reads "tool" or "transfer".
func (u *use) UnmarshalText(b []byte) error { return oneOf((*string)(u), string(b), "use", uses) }

// Spec returns the sub-agent's definition, inline or from its own file. It returns nil if the
// sub-agent's file has not been loaded.
func (a *Agent) Spec() *File {
	if a.Agent != nil {
		return (*File)(a.Agent)
	}
	return a.loaded
}

// maxAgents is the maximum number of agent files on a path of nested files, including the outermost file.
const maxAgents = 8

// agentName matches valid tool names, since agents can be tools.
var agentName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (f *File) checkAgents() error {
	names := map[string]bool{f.Name: true}
	for i := range f.Agents {
		a, at := &f.Agents[i], fmt.Sprintf("agents[%d]", i)
		switch {
		case !agentName.MatchString(a.Name):
			return ErrorAt(f, at, fmt.Errorf("an agent needs a name of up to 64 letters, digits, - and _, not %q", a.Name))
		case names[a.Name]:
			return ErrorAt(f, at+".name", fmt.Errorf("two agents are named %q; rename one of them", a.Name))
		case (a.File == "") == (a.Agent == nil):
			return ErrorAt(f, at, errors.New("an agent needs either file or agent"))
		}
		names[a.Name] = true
		if a.As == "" {
			a.As = useTool
		}
		if a.Agent == nil {
			continue
		}
		inner := a.Spec()
		inner.path, inner.outer, inner.prefix = f.path, f, at+".agent"
		if err := inner.check(); err != nil {
			return err
		}
		if err := f.checkUse(a, at); err != nil {
			return err
		}
	}
	return nil
}

// checkUse returns an error if a is a transfer agent and has transfer agents of its own. The group
// of agents that can transfer the conversation to each other would be ambiguous.
func (f *File) checkUse(a *Agent, at string) error {
	if a.As != UseTransfer || !slices.ContainsFunc(a.Spec().Agents, func(b Agent) bool { return b.As == UseTransfer }) {
		return nil
	}
	return ErrorAt(f,
		at,
		fmt.Errorf("agent %q has as: transfer, and so have agents of its own; move those next to it", a.Name),
	)
}

// locateAgents loads the files of sub-agents, whose paths are relative to dir, and calls locate for
// inline sub-agents. files lists the absolute paths of the enclosing files.
func (f *File) locateAgents(dir string, files []string) error {
	for i := range f.Agents {
		a, at := &f.Agents[i], fmt.Sprintf("agents[%d]", i)
		if a.Agent != nil {
			if err := a.Spec().locate(dir, files); err != nil {
				return err
			}
			continue
		}
		a.File = join(dir, a.File)
		path, err := filepath.Abs(string(a.File))
		switch {
		case err != nil:
		case slices.Contains(files, path):
			err = fmt.Errorf("%s contains itself; agent files cannot be recursive", a.File)
		case len(files) >= maxAgents:
			err = fmt.Errorf("agent files nested more than %d levels deep", maxAgents)
		default:
			a.loaded, err = load(string(a.File), files)
		}
		var placed *Error
		switch {
		case errors.As(err, &placed):
			return err // the error has its position in the sub-agent's file
		case err != nil:
			return ErrorAt(f, at+".file", err)
		}
		if err := f.checkUse(a, at); err != nil {
			return err
		}
	}
	return nil
}
