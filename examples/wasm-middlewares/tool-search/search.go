package main

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// maxResults is the maximum number of results of a search.
const maxResults = 50

type searchArgs struct {
	Query      string `json:"query" doc:"words to look for, +word for one that must occur, or select:name,name"`
	MaxResults int    `json:"max_results,omitempty" doc:"how many tools to find at most"`
}

// A result is the result of a search.
type result struct {
	Matches []string `json:"matches"`
	Hidden  int      `json:"hidden_tools"` // number of hidden tools
}

// find runs a search and returns its result.
func (s *searcher) find(ctx *middleware.Context, args searchArgs) (*abi.Result, error) {
	list, _, err := catalog.Get(ctx)
	if err != nil {
		return nil, err
	}
	limit := args.MaxResults
	if limit <= 0 {
		limit = s.MaxResults
	}
	matches, err := search(list, args.Query, min(limit, maxResults))
	if err != nil {
		return abi.ErrorResult(err.Error()), nil
	}
	b, err := json.Marshal(result{Matches: matches, Hidden: len(list)})
	if err != nil {
		return nil, err
	}
	return abi.TextResult(string(b)), nil
}

// search returns the names of at most limit tools that match a query, best first. A query such as
// "select:a,b" returns all tools with these names. A query without words is an error.
func search(list []entry, query string, limit int) ([]string, error) {
	query = strings.TrimSpace(query)
	if selected, ok := strings.CutPrefix(query, "select:"); ok {
		return choose(list, selected), nil
	}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, middleware.Errorf("query: want words to search for, or select:name")
	}
	type scored struct {
		name  string
		score int
	}
	var found []scored
	for _, e := range list {
		if n := e.score(words); n > 0 {
			found = append(found, scored{e.Name, n})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.name, b.name))
	})
	matches := []string{}
	for _, f := range found[:min(limit, len(found))] {
		matches = append(matches, f.name)
	}
	return matches, nil
}

// choose returns the names in a comma-separated list that belong to hidden tools, without
// duplicates.
func choose(list []entry, selected string) []string {
	matches := []string{}
	for _, name := range strings.Split(selected, ",") {
		name = strings.TrimSpace(name)
		known := slices.ContainsFunc(list, func(e entry) bool { return e.Name == name })
		if known && !slices.Contains(matches, name) {
			matches = append(matches, name)
		}
	}
	return matches
}

// Scores of a word by the place where it occurs. Only the highest score of a word counts.
const (
	inPart        = 10 // the word equals a part of the name
	withinPart    = 5  // the word occurs within a part
	withinName    = 3  // the word occurs in the name, across parts
	inDescription = 2
)

// score returns the sum of the scores of the words, which are in lower case. It returns 0
// if no word occurs, or a required one does not.
func (e entry) score(words []string) int {
	name, about, parts := strings.ToLower(e.Name), strings.ToLower(e.Description), nameParts(e.Name)
	sum := 0
	for _, word := range words {
		word, must := strings.CutPrefix(word, "+")
		n := 0
		switch {
		case word == "":
			continue
		case slices.Contains(parts, word):
			n = inPart
		case slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, word) }):
			n = withinPart
		case strings.Contains(name, word):
			n = withinName
		case strings.Contains(about, word):
			n = inDescription
		case must:
			return 0
		}
		sum += n
	}
	return sum
}

// nameParts returns the parts of a tool's name in lower case: "mcp__slack__sendMessage" has "mcp",
// "slack", "send" and "message".
func nameParts(name string) []string {
	var parts []string
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, field := range strings.FieldsFunc(name, separates) {
		for _, part := range splitCamelCase(field) {
			parts = append(parts, strings.ToLower(part))
		}
	}
	return parts
}

// splitCamelCase returns the parts of s. It splits before a capital that follows a lower-case
// letter, and before the last of several capitals if a lower-case letter follows: "HTMLParser"
// becomes "HTML" and "Parser".
func splitCamelCase(s string) []string {
	var parts []string
	runes := []rune(s)
	from := 0
	for i := 1; i < len(runes); i++ {
		up := unicode.IsUpper(runes[i])
		after := !unicode.IsUpper(runes[i-1])
		before := i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if up && (after || before) {
			parts = append(parts, string(runes[from:i]))
			from = i
		}
	}
	if from < len(runes) {
		parts = append(parts, string(runes[from:]))
	}
	return parts
}
