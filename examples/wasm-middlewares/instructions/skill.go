package main

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

const (
	maxSkillName    = 64   // bytes
	maxSkillSummary = 1024 // bytes of a skill's description
)

// A skill is a file that explains how to do something, usually in a folder of its own.
type skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
	body        string
}

// skills holds the skills that the run found.
var skills = middleware.Local[[]skill]("skills")

// loadSkills reads the skills, registers the tool that loads them, and returns their description
// for the instruction. It emits an event for a skill that is missing, malformed or duplicated, and
// omits it. If no skill remains, it registers no tool.
func (r *instructor) loadSkills(ctx *middleware.Context, run *middleware.AgentStart) (string, error) {
	var list []skill
	for _, p := range r.Skills {
		text, err := r.open(ctx, p)
		var s skill
		if err == nil {
			s, err = parseSkill(p, text)
		}
		if err == nil && slices.ContainsFunc(list, func(o skill) bool { return o.Name == s.Name }) {
			err = &missing{middleware.Sprintf("there is a skill %q already", s.Name)}
		}
		var gone *missing
		switch {
		case errors.As(err, &gone):
			if err := ctx.Emit("left_out", map[string]string{"file": p, "from": "", "why": gone.reason}); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		default:
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	if err := run.AddTool(r.load.Tool); err != nil {
		return "", middleware.Errorf("%w; give this one another name, with the key tool", err)
	}
	var b strings.Builder
	b.WriteString(
		middleware.Sprintf(
			"Skills are texts that say how to do something. Before you do what one of these is for, load it with the tool %s:",
			r.Tool,
		),
	)
	for _, s := range list {
		b.WriteString(middleware.Sprintf("\n- %s: %s", s.Name, s.Description))
	}
	return b.String(), skills.Set(ctx, list)
}

type skillArgs struct {
	Name string `json:"name" doc:"of the skill"`
	File string `json:"file,omitempty" doc:"another file of the skill's folder that its text speaks of; without it, the skill itself"`
}

func (r *instructor) skillTool() middleware.Tool {
	t := middleware.NewTool(r.Tool, "Loads a skill, or a file that belongs to it.", r.answer)
	t.Idempotent = true
	return t
}

// answer returns the text of a skill, or of a file in its folder.
func (r *instructor) answer(ctx *middleware.Context, args skillArgs) (*abi.Result, error) {
	list, _, err := skills.Get(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(s skill) bool { return s.Name == args.Name })
	if i < 0 {
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		return abi.ErrorResult(
			middleware.Sprintf("there is no skill %q; there are %s", args.Name, strings.Join(names, ", ")),
		), nil
	}
	s := list[i]
	folder := path.Dir(s.Path)
	file := s.Path
	if args.File != "" {
		file = path.Join(folder, args.File)
		// A skill at the root has no folder of its own.
		if !clean(file) || folder != "." && !strings.HasPrefix(file, folder+"/") || folder == "." && file != s.Path {
			return abi.ErrorResult(
				middleware.Sprintf("file: %q is no file of the skill %s, which lies in %s", args.File, s.Name, folder),
			), nil
		}
	}
	text, err := r.open(ctx, file)
	var gone *missing
	if errors.As(err, &gone) {
		return abi.ErrorResult(middleware.Sprintf("%s: %s", file, gone.reason)), nil
	}
	if err != nil {
		return nil, err
	}
	if args.File != "" {
		return abi.TextResult(text), nil
	}
	if s, err = parseSkill(file, text); err != nil {
		return abi.ErrorResult(err.Error()), nil
	}
	return abi.TextResult(middleware.Sprintf("Skill %s, from %s\n\n%s", s.Name, file, s.body)), nil
}

// parseSkill parses a skill: "key: value" lines between two "---" lines, including name and
// description, followed by the skill's text.
func parseSkill(p, text string) (skill, error) {
	fail := func(format string, args ...any) (skill, error) {
		return skill{}, &missing{middleware.Sprintf("%s is no skill: ", p) + middleware.Sprintf(format, args...)}
	}
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return fail("it does not begin with a line ---")
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return fail("there is no second line ---")
		}
		body = ""
	}
	s := skill{Path: p, body: strings.TrimSpace(body)}
	fields := headFields(head)
	s.Name, s.Description = fields["name"], fields["description"]
	switch {
	case s.Name == "" || len(s.Name) > maxSkillName || strings.ContainsAny(s.Name, "\n\t"):
		return fail("it needs a name of 1 to %d bytes", maxSkillName)
	case s.Description == "" || len(s.Description) > maxSkillSummary:
		return fail("it needs a description of 1 to %d bytes", maxSkillSummary)
	}
	return s, nil
}

// headFields returns the values in "key: value" lines, by key. A value may continue on indented
// lines, which are joined. Skills use no other YAML.
func headFields(head string) map[string]string {
	fields := map[string]string{}
	key := ""
	for line := range strings.SplitSeq(head, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if key != "" {
				fields[key] = strings.TrimSpace(fields[key] + " " + trimmed)
			}
		default:
			name, value, ok := strings.Cut(line, ":")
			if key = ""; !ok {
				continue
			}
			key = strings.TrimSpace(name)
			value = strings.TrimSpace(value)
			if strings.Trim(value, "|>+-") == "" {
				value = "" // the value follows on the next lines
			}
			fields[key] = value
		}
	}
	for key, value := range fields {
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			fields[key] = value[1 : n-1]
		}
	}
	return fields
}
