// Command instructions is a middleware that assembles an agent's instruction from global text,
// text per agent, files such as AGENTS.md with their imports, and skills, which the model sees
// as one line each until it loads them.
package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "instructions",
		Version:     "1.0.0",
		Description: "Puts the instruction together: global, by agent, of files with imports, and skills on demand.",
	}, newInstructor())
}

func main() {}

func newInstructor() *instructor {
	return &instructor{ReadArgument: "path", MaxBytes: 40_000, Tool: "skill"}
}

type instructor struct {
	Global       string            `json:"global" doc:"a text for all agents, in front of their own instruction"`
	Agents       map[string]string `json:"agents" doc:"text for the agent of that name, appended to its instruction"`
	Files        map[string]string `json:"files" doc:"texts of files, by their paths, with / between folders"`
	Load         []string          `json:"load" doc:"paths of files for the instruction, such as AGENTS.md; files that they import with @path are loaded, too"`
	Skills       []string          `json:"skills" doc:"paths of skills, such as skills/invoices/SKILL.md"`
	ReadTool     string            `json:"read_tool" doc:"a tool of the agent that reads the files that are not in files; needs the grant tool:NAME"`
	ReadArgument string            `json:"read_argument" doc:"the argument of that tool that is the path"`
	MaxBytes     int               `json:"max_bytes" doc:"of all files for the instruction together; one that does not fit is left out"`
	Tool         string            `json:"tool" doc:"the name of the tool that loads a skill"`

	load middleware.Tool
}

// Configure validates the configuration. It rejects paths outside the root, files that cannot be
// read, and skills in Files that are malformed or have the same name.
func (r *instructor) Configure(*middleware.Context) error {
	invalid := func(format string, args ...any) error {
		return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
	}
	if r.Tool == "" || r.ReadArgument == "" || r.MaxBytes < 0 {
		return invalid("tool and read_argument need a name, and max_bytes is not below 0")
	}
	for _, p := range slices.Sorted(maps.Keys(r.Files)) {
		if !clean(p) {
			return invalid("files: %q is no path below the root; want one such as docs/AGENTS.md", p)
		}
	}
	for key, list := range map[string][]string{"load": r.Load, "skills": r.Skills} {
		for i, p := range list {
			if _, given := r.Files[p]; !clean(p) {
				return invalid("%s[%d]: %q is no path below the root; want one such as docs/AGENTS.md", key, i, p)
			} else if !given && r.ReadTool == "" {
				return invalid("%s[%d]: files has no %q, and there is no read_tool to read it with", key, i, p)
			}
		}
	}
	names := map[string]bool{}
	for _, p := range r.Skills {
		text, given := r.Files[p]
		if !given {
			continue
		}
		s, err := parseSkill(p, text)
		if err != nil {
			return invalid("%v", err)
		}
		if names[s.Name] {
			return invalid("two skills are named %q", s.Name)
		}
		names[s.Name] = true
	}
	r.load = r.skillTool()
	return nil
}

// BeforeAgent assembles the instruction, and registers the tool that loads skills if there are
// skills.
func (r *instructor) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	files, err := r.loadFiles(ctx)
	if err != nil {
		return err
	}
	about, err := r.loadSkills(ctx, run)
	if err != nil {
		return err
	}
	var texts []string
	for _, text := range []string{r.Global, run.Instruction, r.Agents[ctx.Run.Agent], files, about} {
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}
	run.Instruction = strings.Join(texts, "\n\n")
	return nil
}

// CallTool loads a skill, or a file in its folder.
func (r *instructor) CallTool(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
	return r.load.Run(ctx, call)
}
