package rerun

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

// TestCompareLines checks the diff of two transcripts, including long ones.
func TestCompareLines(t *testing.T) {
	t.Parallel()
	run := func(words ...string) (out []transcriptLine) {
		for _, w := range words {
			if w != "" {
				out = append(out, newLine("", w, nil))
			}
		}
		return out
	}
	text := func(lines []Line) (out string) {
		for _, l := range lines {
			out += l.Op + l.Text
		}
		return out
	}
	for _, c := range []struct{ before, now, want string }{
		{"", "", ""},
		{"abc", "abc", " a b c"},
		{"", "ab", "+a+b"},
		{"abc", "ac", " a-b c"},
		{"aba", "aa", " a-b a"},
		{"aa", "aaa", " a a+a"},
		{"abcd", "xbyd", "-a+x b-c+y d"},
	} {
		require.Equal(t, c.want, text(compareLines(run(strings.Split(c.before, "")...), run(strings.Split(c.now, "")...))),
			"%+v", c)
	}
	long := strings.Split(strings.Repeat("a", 20_000), "")
	same := compareLines(run(long...), run(long...))
	require.Len(t, same, 20_000)
	last := compareLines(run(append(long, "b")...), run(append(long, "c")...))
	require.Equal(t, "-b+c", text(last[20_000:]))
	other := strings.Split(strings.Repeat("b", 20_000), "")
	require.Len(t, compareLines(run(long...), run(other...)), 40_000)

	end := compareLines(run(strings.Repeat("x", 9999)+"one"), run(strings.Repeat("x", 9999)+"two"))
	require.Len(t, end, 2)
	require.Regexp(t, `^x{40}…x{80}one$`, end[0].Text)
	hidden := compareLines([]transcriptLine{newLine("", "a", "one")}, []transcriptLine{newLine("", "a", "two")})
	require.Equal(t, []Line{{Op: "-", Text: `a "one"`}, {Op: "+", Text: `a "two"`}}, hidden)
}

// TestArgumentsOfSimilarIDs checks that each call of a replay has the arguments of its own tool, although
// one id begins with another.
func TestArgumentsOfSimilarIDs(t *testing.T) {
	t.Parallel()
	r := &Pass{run: &Run{Info: &journal.RunInfo{ID: "r"}}, calls: map[runlog.CallKey]string{}}
	for _, id := range []string{"a", "a#b"} {
		r.calls[runlog.CallKey{Run: "r", Step: 1, Key: "tool/" + id + "#1"}] = `"` + id + `"`
		r.events = append(r.events, abi.Event{Type: abi.EventToolCall, Step: 1, Call: &abi.Call{ID: id, Name: "t"}})
	}
	var lines []string
	for _, l := range r.transcript(&View{}, true) {
		if strings.Contains(l.text, "gets") {
			lines = append(lines, l.text)
		}
	}
	require.Equal(t, []string{`t gets "a"`, `t gets "a#b"`}, lines)
}
