// Command tool-search is a middleware for agents with many tools: it hides tools from the
// model until a search finds them.
package main

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "tool-search",
		Version:     "1.0.0",
		Description: "Hides tools from the model until it searches for them.",
	}, newSearcher())
}

func main() {}

func newSearcher() *searcher {
	return &searcher{Tool: "tool_search", MaxResults: 5, ListNames: true}
}

type searcher struct {
	Hide       []string `json:"hide" doc:"tools that are hidden until they are found, * for any characters"`
	Show       []string `json:"show" doc:"tools that are not hidden, though hide names them"`
	Tool       string   `json:"tool" doc:"the name of the tool that searches"`
	MaxResults int      `json:"max_results" doc:"the maximum number of tools that a search finds, if the model does not set it"`
	ListNames  bool     `json:"list_names" doc:"tell the model the names of the hidden tools, in the instruction"`

	search middleware.Tool
}

// seen holds the tools found by searches in the conversation up to a revision.
type seen struct {
	Revision int64    `json:"revision"`
	Found    []string `json:"found"`
}

var (
	searches = middleware.Local[seen]("searches")
	// catalog holds the hidden tools for the search tool, whose hook does not receive the
	// list of tools.
	catalog = middleware.Local[[]entry]("catalog")
	// catalogSum is a checksum of catalog, to detect changes.
	catalogSum = middleware.Local[uint64]("catalog/sum")
)

// An entry describes a hidden tool for searches.
type entry struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// maxDescription is the maximum number of bytes of a description that are stored and searched.
const maxDescription = 500

// Configure validates the configuration.
func (s *searcher) Configure(*middleware.Context) error {
	var reason string
	switch {
	case len(s.Hide) == 0:
		reason = `hide: name the tools to hide, such as ["mcp__*"]`
	case s.Tool == "":
		reason = "tool: it needs a name"
	case s.MaxResults < 1 || s.MaxResults > maxResults:
		reason = middleware.Sprintf("max_results: %d is not 1 to %d", s.MaxResults, maxResults)
	}
	if reason != "" {
		return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + reason}
	}
	s.search = middleware.NewTool(s.Tool,
		"Finds tools that are hidden, by words of their names and descriptions; those it finds can be called from then on. "+
			"A word with + before it must occur. \"select:a,b\" finds the tools a and b.", s.find)
	s.search.Idempotent = true
	return nil
}

func (s *searcher) hidden(tool string) bool {
	return tool != s.Tool && names.Match(s.Hide, tool) && !names.Match(s.Show, tool)
}

// BeforeAgent registers the search tool and mentions it in the instruction, if tools are hidden.
func (s *searcher) BeforeAgent(_ *middleware.Context, run *middleware.AgentStart) error {
	var list []string
	for i := range run.Tools {
		if s.hidden(run.Tools[i].Name) {
			list = append(list, run.Tools[i].Name)
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := run.AddTool(s.search.Tool); err != nil {
		return middleware.Errorf("%w; give this one another name, with the key tool", err)
	}
	text := "There are more tools than you are shown. Search for them with " + s.Tool + " before you say that something cannot be done."
	if s.ListNames {
		slices.Sort(list)
		text += " Their names: " + strings.Join(list, ", ") + "."
	}
	run.AddInstruction(text)
	return nil
}

// BeforeModelRewriteState hides tools that were not found, and activates those that new
// searches found.
func (s *searcher) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	if err := s.keepCatalog(ctx, state.Tools); err != nil {
		return err
	}
	before, now, err := s.look(ctx, state.Messages)
	if err != nil {
		return err
	}
	var active []string
	for i := range state.Tools {
		t := &state.Tools[i]
		on := t.Active
		if s.hidden(t.Name) {
			// Other modules may have hidden a tool that was found before.
			found := slices.Contains(now, t.Name)
			on = found && (on || !slices.Contains(before, t.Name))
		}
		if on {
			active = append(active, t.Name)
		}
	}
	return state.SetActive(active...)
}

// keepCatalog stores the hidden tools if they changed.
func (s *searcher) keepCatalog(ctx *middleware.Context, tools []abi.StateTool) error {
	var list []entry
	for i := range tools {
		if t := &tools[i]; s.hidden(t.Name) {
			about := t.Description
			if len(about) > maxDescription {
				about = strings.ToValidUTF8(about[:maxDescription], "")
			}
			list = append(list, entry{t.Name, about})
		}
	}
	sum := fnv.New64a()
	for _, e := range list {
		sum.Write([]byte(middleware.Sprintf("%q%q", e.Name, e.Description)))
	}
	old, _, err := catalogSum.Get(ctx)
	if err != nil || old == sum.Sum64() {
		return err
	}
	if err := catalogSum.Set(ctx, sum.Sum64()); err != nil {
		return err
	}
	return catalog.Set(ctx, list)
}

// look returns the tools that searches had found before the last call of look, and those that they
// have found by now. A tool stays found even if its search has left the conversation.
func (s *searcher) look(ctx *middleware.Context, messages *middleware.Messages) (before, now []string, err error) {
	last, known, err := searches.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := 0
	if known {
		// Start at the message with the calls of the first new results.
		for i = messages.ChangedSince(last.Revision); i > 0; {
			if i--; messages.At(i).Role != abi.RoleTool {
				break
			}
		}
	}
	before, now = last.Found, slices.Clone(last.Found)
	var calls []abi.ToolCall
	for ; i < messages.Len(); i++ {
		m := messages.At(i)
		if m.Role != abi.RoleTool {
			calls = m.ToolCalls
			continue
		}
		searched := slices.ContainsFunc(
			calls,
			func(c abi.ToolCall) bool { return c.ID == m.ToolCallID && c.Function.Name == s.Tool },
		)
		var result result
		if !searched {
			continue
		}
		if _, err := json.Decode([]byte(m.Content.String()), &result); err != nil {
			continue
		}
		for _, name := range result.Matches {
			if s.hidden(name) && !slices.Contains(now, name) {
				now = append(now, name)
			}
		}
	}
	return before, now, searches.Set(ctx, seen{messages.Revision(), now})
}

// CallTool runs a search.
func (s *searcher) CallTool(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
	return s.search.Run(ctx, call)
}
