package cassette

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

const (
	contextLines = 3       // unchanged lines around a difference
	maxShown     = 80      // lines of a diff
	maxText      = 100     // characters of text in one line
	maxTable     = 1 << 20 // cells of the table for a shortest diff
)

// A line is one value of a request: a scalar, or a piece of a string.
type line struct {
	path string // such as messages[2].content
	text string // the value as JSON
}

func (l line) String() string { return l.path + ": " + l.text }

// compare returns the first difference between a request and the recorded one, with a diff of both,
// or nil if they are equal.
func compare(it *interaction, req *model.Request) (*difference, error) {
	recorded, err := linesOf(it.Messages, it.Tools)
	if err != nil {
		return nil, err
	}
	got, err := linesOf(recordedMessages(req.Messages), recordedTools(req.Tools))
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(recorded) && n < len(got) && recorded[n] == got[n] {
		n++
	}
	if n == len(recorded) && n == len(got) {
		return nil, nil
	}
	d := &difference{diff: unified(recorded, got, n)}
	d.path = first(recorded[n:], got[n:])
	for _, list := range []struct {
		name          string
		recorded, got int
	}{{"messages", len(it.Messages), len(req.Messages)}, {"tools", len(it.Tools), len(req.Tools)}} {
		end := fmt.Sprintf("%s[%d]", list.name, min(list.recorded, list.got))
		if list.recorded == list.got || !strings.HasPrefix(d.path, end) {
			continue
		}
		d.path, d.note = end, ", which is missing"
		if list.recorded < list.got {
			d.note = ", which is not in the recording"
		}
	}
	return d, nil
}

// A difference describes how a request differs from the recorded one.
type difference struct{ path, note, diff string }

// first returns the path of the first line that differs. The path is from got, unless got has ended
// or has reached the tools: the request then probably lacks recorded lines, and the path is from
// recorded.
func first(recorded, got []line) string {
	switch {
	case len(got) == 0:
		return recorded[0].path
	case len(recorded) > 0 && strings.HasPrefix(got[0].path, "tools"):
		return recorded[0].path
	default:
		return got[0].path
	}
}

// linesOf formats messages and tools as lines. It sorts the keys of objects, whose order does not
// matter.
func linesOf(messages []abi.Message, tools []tool) ([]line, error) {
	out, err := linesOfEach(nil, "messages", messages)
	if err != nil {
		return nil, err
	}
	return linesOfEach(out, "tools", tools)
}

func linesOfEach[T any](out []line, path string, list []T) ([]line, error) {
	for i := range list {
		b, err := abijson.Marshal(list[i])
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		out = flatten(out, fmt.Sprintf("%s[%d]", path, i), v)
	}
	return out, nil
}

func flatten(out []line, path string, v any) []line {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return append(out, line{path, "{}"})
		}
		for _, key := range slices.SortedFunc(maps.Keys(v), inReadingOrder) {
			out = flatten(out, member(path, key), v[key])
		}
		return out
	case []any:
		if len(v) == 0 {
			return append(out, line{path, "[]"})
		}
		for i, e := range v {
			out = flatten(out, fmt.Sprintf("%s[%d]", path, i), e)
		}
		return out
	case string:
		return text(out, path, v)
	default:
		b, _ := json.Marshal(v) // null, booleans and numbers always marshal
		return append(out, line{path, string(b)})
	}
}

func member(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"\n") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	return path + "." + key
}

// readingOrder lists the keys that sort before others.
var readingOrder = []string{"role", "name", "tool_call_id", "reasoning_content", "content", "tool_calls"}

func inReadingOrder(a, b string) int {
	rank := func(key string) int {
		if i := slices.Index(readingOrder, key); i >= 0 {
			return i
		}
		return len(readingOrder)
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// text appends a string, split after each newline and after every maxText characters.
func text(out []line, path, s string) []line {
	for {
		n, size := 0, 0
		for n < len(s) && size < maxText {
			_, w := utf8.DecodeRuneInString(s[n:])
			n, size = n+w, size+1
			if s[n-1] == '\n' {
				break
			}
		}
		out = append(out, line{path, strconv.Quote(s[:n])})
		if s = s[n:]; s == "" {
			return out
		}
	}
}

// unified returns a unified diff of a and b, whose first n lines are equal.
func unified(a, b []line, n int) string {
	end := 0
	for end < len(a)-n && end < len(b)-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var ops []op
	for _, l := range a[max(0, n-contextLines):n] {
		ops = append(ops, op{' ', l})
	}
	ops = append(ops, edit(a[n:len(a)-end], b[n:len(b)-end])...)
	for _, l := range a[len(a)-end:][:min(end, contextLines)] {
		ops = append(ops, op{' ', l})
	}
	return render(ops)
}

type op struct {
	sign byte // ' ', '-' or '+'
	line line
}

// edit returns a shortest edit from a to b. If the table for it would exceed maxTable cells, edit
// returns the first maxShown/2 lines of a as deletions, then all lines of b as additions.
func edit(a, b []line) []op {
	var ops []op
	if len(a)*len(b) > maxTable {
		for _, l := range a[:min(len(a), maxShown/2)] {
			ops = append(ops, op{'-', l})
		}
		for _, l := range b {
			ops = append(ops, op{'+', l})
		}
		return ops
	}
	// longest[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			ops = append(ops, op{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			ops = append(ops, op{'-', a[i]})
			i++
		default:
			ops = append(ops, op{'+', b[j]})
			j++
		}
	}
	return ops
}

// render formats the changes and contextLines lines around them, at most maxShown lines in total.
func render(ops []op) string {
	near := make([]bool, len(ops))
	for i, o := range ops {
		if o.sign == ' ' {
			continue
		}
		for k := max(0, i-contextLines); k <= min(len(ops)-1, i+contextLines); k++ {
			near[k] = true
		}
	}
	var b strings.Builder
	shown := 0
	for i, o := range ops {
		switch {
		case shown == maxShown:
			fmt.Fprintf(&b, "… and %d lines more\n", len(ops)-i)
			return strings.TrimSuffix(b.String(), "\n")
		case near[i]:
			fmt.Fprintf(&b, "%c %s\n", o.sign, o.line)
			shown++
		case i > 0 && near[i-1]:
			b.WriteString("  …\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
