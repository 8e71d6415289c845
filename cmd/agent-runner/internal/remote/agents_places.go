package remote

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// A modulePlace is the position in an agent.yaml or a gateway.yaml of the module of an entry.
type modulePlace struct {
	at           string // the path in errors, such as middlewares[0].module
	module       string // the module as the file names it
	digest       string // the replacement
	line, column int    // position of the key, starting at 1
	named        bool   // the entry has a name of its own
	braces       bool   // the entry is a flow mapping, in braces
}

// modulePlaces returns the positions of all modules in the text of a valid file.
// It ignores modules given by YAML aliases.
func modulePlaces(text []byte) (out []modulePlace, err error) {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	var agent func(at string, n ast.Node)
	list := func(at string, n ast.Node) {
		for i, item := range itemsOf(n) {
			if p, ok := placeOf(item); ok {
				p.at = fmt.Sprintf("%s[%d].module", at, i)
				out = append(out, p)
			}
		}
	}
	agent = func(at string, n ast.Node) {
		for _, pair := range pairsOf(n) {
			switch key := pair.Key.GetToken().Value; key {
			case "middlewares":
				list(at+key, pair.Value)
			case "rings":
				for _, ring := range pairsOf(pair.Value) {
					list(at+"rings."+ring.Key.GetToken().Value, ring.Value)
				}
			case "routes":
				for i, item := range itemsOf(pair.Value) {
					agent(fmt.Sprintf("%s[%d].", key, i), item)
				}
			case "agents":
				for i, item := range itemsOf(pair.Value) {
					for _, inner := range pairsOf(item) {
						if inner.Key.GetToken().Value == "agent" {
							agent(fmt.Sprintf("%s%s[%d].agent.", at, key, i), inner.Value)
						}
					}
				}
			}
		}
	}
	for _, doc := range tree.Docs {
		agent("", doc.Body)
	}
	slices.SortStableFunc(out, func(a, b modulePlace) int { return (a.line-b.line)<<20 + a.column - b.column })
	return out, nil
}

// placeOf returns the position of the module of an entry. ok is false if the entry has no module
// or the module is not a plain string.
func placeOf(entry ast.Node) (p modulePlace, ok bool) {
	m, isMap := entry.(*ast.MappingNode)
	p.braces = isMap && m.IsFlowStyle
	for _, pair := range pairsOf(entry) {
		switch pair.Key.GetToken().Value {
		case "name":
			p.named = true
		case "module":
			var text *ast.StringNode
			if text, ok = pair.Value.(*ast.StringNode); ok {
				at := pair.Key.GetToken().Position
				p.module, p.line, p.column = text.Value, at.Line, at.Column
			}
		}
	}
	return p, ok
}

func pairsOf(n ast.Node) []*ast.MappingValueNode {
	switch at := n.(type) {
	case *ast.MappingNode:
		return at.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{at}
	}
	return nil
}

func itemsOf(n ast.Node) []ast.Node {
	if list, ok := n.(*ast.SequenceNode); ok {
		return list.Values
	}
	return nil
}

// rewrite replaces the module with its digest in the lines of the file. If the entry has no name,
// rewrite adds the name derived from the path. The other lines, and comments, are unchanged. It
// returns an error if the path is not on the line of its key.
func (p *modulePlace) rewrite(lines []string) ([]string, error) {
	line := []rune(lines[p.line-1])
	at := min(p.column-1, len(line))
	before, rest := string(line[:at]), string(line[at:])
	start := strings.Index(rest, p.module)
	if start < 0 {
		return nil, cli.Usagef("module: write the path %s after the key, on the same line, without escapes", p.module)
	}
	end := start + len(p.module)
	if start > 0 && end < len(rest) && rest[start-1] == rest[end] && strings.ContainsRune(`"'`, rune(rest[end])) {
		start, end = start-1, end+1
	}
	name := "name: " + yamlText(agentfile.EntryName(p.module))
	digest := p.digest
	if p.braces && !p.named {
		digest += ", " + name
	}
	lines[p.line-1] = before + rest[:start] + digest + rest[end:]
	if p.braces || p.named {
		return lines, nil
	}
	ending := ""
	if strings.HasSuffix(rest, "\r") {
		ending = "\r"
	}
	return slices.Insert(lines, p.line, strings.Repeat(" ", p.column-1)+name+ending), nil
}

var yamlPlain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// yamlText returns s as a YAML scalar, quoted if necessary.
func yamlText(s string) string {
	if yamlPlain.MatchString(s) {
		return s
	}
	b, _ := json.Marshal(s) // never fails for a string
	return string(b)
}
