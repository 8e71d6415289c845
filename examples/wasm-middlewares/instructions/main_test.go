package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

const invoices = "---\nname: invoices\ndescription: How invoices are written.\n---\n\n# Invoices\n---\nFill in form.md.\n"

func newHost(t *testing.T, config map[string]any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{Name: "instructions"}, newInstructor())
	require.NoError(t, h.Configure(config))
	return h
}

// start returns the instruction, and whether the skill tool is registered.
func start(t *testing.T, h *middlewaretest.Host, own string) (instruction string, tool bool) {
	t.Helper()
	answer, err := h.BeforeAgent(abi.BeforeAgentInput{Instruction: own})
	require.NoError(t, err)
	if answer.Instruction != nil {
		own = *answer.Instruction
	}
	return own, len(answer.Tools.Add) == 1
}

func load(t *testing.T, h *middlewaretest.Host, args map[string]any) *abi.Result {
	t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	answer, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "skill", Arguments: string(raw)}})
	require.NoError(t, err)
	return answer.Result
}

func left(h *middlewaretest.Host) (out []string) {
	for _, e := range h.Events {
		out = append(out, string(e.Data))
	}
	return out
}

func TestOrder(t *testing.T) {
	t.Parallel()
	config := map[string]any{
		"global": "All: be kind.",
		"agents": map[string]string{"test": "Test: be quick.", "other": "Other."},
		"files": map[string]string{
			"AGENTS.md":  "Use tabs.\n",
			"s/SKILL.md": invoices,
		},
		"load":   []string{"AGENTS.md"},
		"skills": []string{"s/SKILL.md"},
	}
	h := newHost(t, config)
	got, tool := start(t, h, "Own.")
	require.True(t, tool)
	require.Equal(t, "All: be kind.\n\nOwn.\n\nTest: be quick.\n\nContents of AGENTS.md:\n\nUse tabs.\n\n"+
		"Skills are texts that say how to do something. Before you do what one of these is for, load it with the tool skill:\n- invoices: How invoices are written.", got)

	got, tool = start(t, newHost(t, map[string]any{"global": "All."}), "")
	require.False(t, tool)
	require.Equal(t, "All.", got)
	got, _ = start(t, newHost(t, nil), "Own.")
	require.Equal(t, "Own.", got)
}

func TestImports(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"see @docs/git.md, and @b.md.":         {"docs/git.md", "b.md"},
		"mail amy@example.com, ask @amy":       nil,
		"`@code.md` but (@not.md) and @yes/it": {"yes/it"},
		"```\n@code.md\n```\n@text.md":         {"text.md"},
		"@a.md\n@../up.md\n@/etc/passwd @~/.x": {"a.md", "../up.md", "/etc/passwd", "~/.x"},
		"":                                     nil,
	} {
		require.Equal(t, want, imports(text), text)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"AGENTS.md": "Read @docs/a.md and @docs/a.md.",
		"docs/a.md": "A, with @b.md",
		"docs/b.md": "B, back to @a.md and @../AGENTS.md",
		"up.md":     "@../../etc/passwd.txt @/etc/passwd @gone.md",
		"big.md":    strings.Repeat("x", 5000),
		"0.md":      "@1.md",
		"1.md":      "@2.md",
		"2.md":      "@3.md",
		"3.md":      "@4.md",
		"4.md":      "@5.md",
		"5.md":      "five @6.md",
		"6.md":      "six",
	}
	for name, c := range map[string]struct {
		load []string
		want []string
		left []string
	}{
		"each once, also in a circle": {[]string{"AGENTS.md", "docs/b.md"}, []string{
			"Contents of AGENTS.md:\n\nRead @docs/a.md and @docs/a.md.", "Contents of docs/a.md, imported by AGENTS.md:\n\nA, with @b.md",
			"Contents of docs/b.md, imported by docs/a.md:\n\nB, back to @a.md and @../AGENTS.md"}, nil},
		"nothing above the root": {[]string{"up.md"}, []string{"Contents of up.md:\n\n" + files["up.md"]}, []string{
			`{"file":"../../etc/passwd.txt","from":"up.md","why":"it is no path below the root"}`,
			`{"file":"/etc/passwd","from":"up.md","why":"it is no path below the root"}`,
			`{"file":"gone.md","from":"up.md","why":"there is no such file in the configuration"}`}},
		"too large": {[]string{"big.md", "6.md"}, []string{"Contents of 6.md:\n\nsix"}, []string{
			`{"file":"big.md","from":"","why":"its 5000 bytes are more than the 1000 that are left of max_bytes"}`}},
		"too deep": {[]string{"0.md"}, []string{"Contents of 0.md:\n\n@1.md", "Contents of 1.md, imported by 0.md:\n\n@2.md", "Contents of 2.md, imported by 1.md:\n\n@3.md",
			"Contents of 3.md, imported by 2.md:\n\n@4.md", "Contents of 4.md, imported by 3.md:\n\n@5.md", "Contents of 5.md, imported by 4.md:\n\nfive @6.md"},
			[]string{`{"file":"6.md","from":"5.md","why":"there are more than 50 files, or imports more than 5 deep"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, map[string]any{"files": files, "load": c.load, "max_bytes": 1000})
			got, _ := start(t, h, "")
			require.Equal(t, strings.Join(c.want, "\n\n"), got)
			require.Equal(t, c.left, left(h))
		})
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	files, refs := map[string]string{}, ""
	for i := range 100 {
		files[fmt.Sprintf("f%d.md", i)] = "x"
		refs += fmt.Sprintf("@f%d.md\n", i)
	}
	files["AGENTS.md"] = refs
	h := newHost(t, map[string]any{"files": files, "load": []string{"AGENTS.md"}})
	got, _ := start(t, h, "")
	require.Equal(t, 50, strings.Count(got, "Contents of "))
	require.Len(t, h.Events, 51)
}

func TestSkills(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"skills": []string{"skills/invoices/SKILL.md", "SKILL.md"}, "files": map[string]string{
		"skills/invoices/SKILL.md": invoices, "skills/invoices/form.md": "The form.", "skills/secret.md": "not its own",
		"SKILL.md": "---\r\nname: \"root\"\r\ndescription: >\r\n  One that\r\n  is long.\r\n---", "other.md": "no skill's"}})
	got, _ := start(t, h, "")
	require.Contains(t, got, "\n- invoices: How invoices are written.\n- root: One that is long.")
	require.NotContains(t, got, "# Invoices")
	require.NoError(t, h.Wipe())
	require.Equal(
		t,
		"Skill invoices, from skills/invoices/SKILL.md\n\n# Invoices\n---\nFill in form.md.",
		load(t, h, map[string]any{"name": "invoices"}).Content.String(),
	)
	require.Equal(t, "The form.", load(t, h, map[string]any{"name": "invoices", "file": "form.md"}).Content.String())
	for want, args := range map[string]map[string]any{
		`there is no skill "x"; there are invoices, root`:                  {"name": "x"},
		`file: "../secret.md" is no file of the skill invoices`:            {"name": "invoices", "file": "../secret.md"},
		`file: "../../../etc/passwd" is no file of`:                        {"name": "invoices", "file": "../../../etc/passwd"},
		`file: "other.md" is no file of the skill root, which`:             {"name": "root", "file": "other.md"},
		"skills/invoices/x.md: there is no such file in the configuration": {"name": "invoices", "file": "x.md"},
		"arguments of skill: unknown: path":                                {"name": "invoices", "path": "x"},
	} {
		res := load(t, h, args)
		require.True(t, res.IsError)
		require.Contains(t, res.Content.String(), want)
	}
}

func TestParseSkill(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: x\n---\nbody":                  "p is no skill: it does not begin with a line ---",
		"---\nname: x\ndescription: y\nbody":  "p is no skill: there is no second line ---",
		"---\ndescription: y\n---\n":          "p is no skill: it needs a name of 1 to 64 bytes",
		"---\nname: x\n---\n":                 "p is no skill: it needs a description of 1 to 1024 bytes",
		"---\nname: x\ndescription: |\n---\n": "p is no skill: it needs a description of 1 to 1024 bytes",
		"---\nname: x\ndescription: y\n---":   "",
		"---\n---\n":                          "p is no skill: it needs a name of 1 to 64 bytes",
		"---\n\n# c\nname:  'x' \nother:\n  deep: 1\ndescription: y: z\n---\nb": "",
	} {
		s, err := parseSkill("p", text)
		if want != "" {
			require.EqualError(t, err, want, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, "x", s.Name)
	}
}

func FuzzParseSkill(f *testing.F) {
	f.Add(invoices)
	f.Add("---\nname: \"\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSkill("p", text)
		if err == nil {
			require.NotEmpty(t, s.Name)
			require.Equal(t, strings.TrimSpace(s.body), s.body)
		}
		_ = imports(text)
	})
}

// TestReadTool checks that files missing from the configuration are read with a tool of the agent.
func TestReadTool(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"AGENTS.md":  "Read @more.md and @gone.md",
		"more.md":    "More.",
		"s/SKILL.md": invoices,
		"s/form.md":  "The form.",
		"t/SKILL.md": invoices,
		"u/SKILL.md": "none",
	}
	h := newHost(t, map[string]any{"read_tool": "cat", "read_argument": "file", "load": []string{"AGENTS.md"},
		"skills": []string{"s/SKILL.md", "t/SKILL.md", "u/SKILL.md", "v/SKILL.md"}})
	h.OwnTool = func(name, arguments string) (*abi.Result, error) {
		require.Equal(t, "cat", name)
		var args struct{ File string }
		require.NoError(t, json.Unmarshal([]byte(arguments), &args))
		if text, ok := files[args.File]; ok {
			return abi.TextResult(text), nil
		}
		return abi.ErrorResult("no such file"), nil
	}
	got, _ := start(t, h, "")
	require.Contains(t, got, "Contents of more.md, imported by AGENTS.md:\n\nMore.")
	require.Equal(t, 1, strings.Count(got, "\n- invoices:"))
	require.Equal(t, []string{
		`{"file":"gone.md","from":"AGENTS.md","why":"no such file"}`,
		`{"file":"t/SKILL.md","from":"","why":"there is a skill \"invoices\" already"}`,
		`{"file":"u/SKILL.md","from":"","why":"u/SKILL.md is no skill: it does not begin with a line ---"}`,
		`{"file":"v/SKILL.md","from":"","why":"no such file"}`,
	}, left(h))
	require.Contains(t, load(t, h, map[string]any{"name": "invoices"}).Content.String(), "# Invoices")
	require.Equal(t, "The form.", load(t, h, map[string]any{"name": "invoices", "file": "form.md"}).Content.String())
	files["s/SKILL.md"] = "changed meanwhile"
	require.True(t, load(t, h, map[string]any{"name": "invoices"}).IsError)

	h.OwnTool = nil
	_, err := h.BeforeAgent(abi.BeforeAgentInput{})
	require.ErrorContains(t, err, "read AGENTS.md: tool:cat is not granted")
	require.True(t, errors.Is(err, &abi.Error{Code: abi.CodeDenied}))
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]map[string]any{
		"tool and read_argument need":                          {"tool": ""},
		`files: "../x" is no path below`:                       {"files": map[string]string{"../x": ""}},
		`files: "/x" is no path below`:                         {"files": map[string]string{"/x": ""}},
		`files: "a//b" is no path below`:                       {"files": map[string]string{"a//b": ""}},
		`load[0]: files has no "x", and there is no read_tool`: {"load": []string{"x"}},
		`skills[0]: ".." is no path below the root`:            {"skills": []string{".."}, "read_tool": "x"},
		"x is no skill: it does not begin": {
			"skills": []string{"x"}, "files": map[string]string{"x": ""},
		},
		`two skills are named "invoices"`: {"skills": []string{"x", "y"}, "files": map[string]string{"x": invoices, "y": invoices}},
	} {
		h := middlewaretest.New(middleware.Options{}, newInstructor())
		require.ErrorContains(t, h.Configure(config), "config: "+want)
	}
}
