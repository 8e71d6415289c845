package rerun

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A Diff is the difference between two replays of a run: one with the run's own modules, and one with
// others.
type Diff struct {
	// Reproduced is set if the first replay reproduces the stored run.
	Reproduced bool
	Lines      []Line
	Note       string // why a replay ended early, or does not reproduce the run; empty if neither holds
}

// A Line is the summary of an event, or of data that was sent to the model or a tool. Op is " " if
// the line is in both replays, "-" if it is only in the replay with the run's own modules, and "+" if
// it is only in the other replay.
type Line struct {
	Op   string `json:"op"`
	Text string `json:"text"`
	Kind Kind   `json:"-"`
	Step int    `json:"-"`
}

// Differs reports whether the line is in only one of the replays.
func (l Line) Differs() bool { return l.Op != " " }

// Compare returns the difference of two replays of a run. own is the replay with the run's own
// modules. v selects the content of the lines.
func Compare(own, other *Pass, v View) *Diff {
	d := &Diff{
		Lines: compareLines(own.transcript(&v, true), other.transcript(&v, true)),
		Note:  other.note,
	}
	stored := &Pass{run: own.run, events: own.run.Events}
	again := &Pass{run: own.run, events: own.events}
	at := compareLines(stored.transcript(&v, false), again.transcript(&v, false))
	i := slices.IndexFunc(at, Line.Differs)
	if d.Reproduced = i < 0; d.Reproduced {
		return d
	}
	where := map[string]string{"-": "the run had", "+": "the replay has"}[at[i].Op]
	d.Note = strings.TrimSpace(
		d.Note + "\nThe run is not reproducible: with its own modules its replay differs from what is stored. " +
			"Modules that use the clock, random numbers, stored values or HTTP, and runs that were canceled or timed out, cannot be reproduced.\n" +
			"The first difference is that " + where + ": " + at[i].Text,
	)
	return d
}

// Differs reports whether the two replays differ.
func (d *Diff) Differs() bool { return slices.ContainsFunc(d.Lines, Line.Differs) }

// Same reports whether the replays are the same, and the first one reproduces the stored run.
func (d *Diff) Same() bool { return d.Reproduced && !d.Differs() }

// Context calls each for the lines that differ, and for up to around equal lines before and after
// them. It calls skipped for each place where equal lines are omitted.
func (d *Diff) Context(around int, each func(Line), skipped func()) {
	gap := false
	for i, l := range d.Lines {
		if !slices.ContainsFunc(d.Lines[max(0, i-around):min(len(d.Lines), i+around+1)], Line.Differs) {
			gap = true
			continue
		}
		if gap {
			skipped()
			gap = false
		}
		each(l)
	}
}

// maxCompared is the maximum number of pairs of lines that compareLines compares. Beyond it, all
// of these lines count as different.
const maxCompared = 1 << 22

// compareLines returns the difference of two transcripts: a line diff by their longest common
// subsequence.
func compareLines(a, b []transcriptLine) []Line {
	begin := 0
	for begin < min(len(a), len(b)) && a[begin].sum == b[begin].sum {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end].sum == b[len(b)-1-end].sum {
		end++
	}
	d := &differ{}
	d.equal(a[:begin])
	d.compare(a[begin:len(a)-end], b[begin:len(b)-end])
	d.pair()
	d.equal(a[len(a)-end:])
	return d.out
}

// A differ collects the lines of a difference.
type differ struct {
	out            []Line
	removed, added []transcriptLine // since the last equal line
}

// compare adds the difference of a and b.
func (d *differ) compare(a, b []transcriptLine) {
	if len(a)*len(b) > maxCompared {
		d.removed, d.added = a, b
		return
	}
	// lengths[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].sum == b[j].sum {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i].sum == b[j].sum:
			d.pair()
			d.equal(a[i : i+1])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lengths[i+1][j] >= lengths[i][j+1]:
			d.removed = append(d.removed, a[i])
			i++
		default:
			d.added = append(d.added, b[j])
			j++
		}
	}
}

// equal adds lines that are in both transcripts.
func (d *differ) equal(lines []transcriptLine) {
	for _, l := range lines {
		d.out = append(d.out, l.as(" ", l.text, 0))
	}
}

// pair adds the lines that were removed and added since the last equal line. It shows long lines
// from where they begin to differ.
func (d *differ) pair() {
	for i := range max(len(d.removed), len(d.added)) {
		switch {
		case i >= len(d.added):
			d.out = append(d.out, d.removed[i].as("-", d.removed[i].text, 0))
		case i >= len(d.removed):
			d.out = append(d.out, d.added[i].as("+", d.added[i].text, 0))
		default:
			was, is := d.removed[i].text, d.added[i].text
			if was == is { // the summary does not show the difference
				was, is = was+" "+d.removed[i].all, is+" "+d.added[i].all
			}
			at := EqualPrefix(was, is)
			d.out = append(d.out, d.removed[i].as("-", was, at), d.added[i].as("+", is, at))
		}
	}
	d.removed, d.added = nil, nil
}

// as returns the line in a difference, with an excerpt of text around byte at.
func (l *transcriptLine) as(op, text string, at int) Line {
	return Line{Op: op, Text: Excerpt(text, at, maxLine), Kind: l.kind, Step: l.step}
}

// EqualPrefix returns the length of the common prefix of a and b, in bytes.
func EqualPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Limits on the text of a line, in bytes.
const (
	maxLine     = 400
	linePrefix  = 40 // shown of the beginning of a long line
	lineContext = 80 // shown before the difference
)

// Excerpt returns at most about limit bytes of a long line: its beginning, and the part around byte
// at.
func Excerpt(text string, at, limit int) string {
	if len(text) <= limit {
		return text
	}
	prefix := ""
	if from := at - lineContext; from > linePrefix {
		prefix = truncate.Text(text, linePrefix) + "…"
		text = strings.ToValidUTF8(text[from:], "") // from may be within a character
	}
	if len(text) > limit {
		text = truncate.Text(text, limit) + "…"
	}
	return prefix + text
}
