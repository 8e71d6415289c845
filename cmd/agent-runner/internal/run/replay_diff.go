package run

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/rerun"
)

// A runDiff is the difference between two replays of a run: one with its own modules, and one with
// another module.
type runDiff struct {
	Run    string `json:"run"`
	Entry  string `json:"entry"`
	Digest string `json:"digest"` // of the replaced module
	// Same is set if the two replays are equal, and the first one reproduces the stored run.
	Same       bool         `json:"same"`
	Reproduced bool         `json:"reproduced"`
	Lines      []rerun.Line `json:"lines"`
	Note       string       `json:"note,omitempty"` // why a replay ended early, or does not reproduce the run
}

// compare sets the difference of two replays.
func (d *runDiff) compare(own, other *rerun.Pass) {
	diff := rerun.Compare(own, other, rerun.View{})
	d.Same, d.Reproduced, d.Lines, d.Note = diff.Same(), diff.Reproduced, diff.Lines, diff.Note
}

// Differs reports whether the two replays differ.
func (d *runDiff) Differs() bool { return (&rerun.Diff{Lines: d.Lines}).Differs() }

// diffContext is the number of equal lines shown around a difference.
const diffContext = 2

// text formats the difference.
func (d *runDiff) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s with another %s (was sha256:%s)\n", d.Run, d.Entry, cli.Short(d.Digest, 13))
	(&rerun.Diff{Lines: d.Lines}).Context(diffContext,
		func(l rerun.Line) { out.WriteString(l.Op + " " + cli.Clean(l.Text) + "\n") },
		func() { out.WriteString("  …\n") })
	if d.Note != "" {
		fmt.Fprintf(&out, "\n%s\n", cli.Clean(d.Note))
	}
	if d.Same {
		out.WriteString("the same run\n")
	}
	return out.String()
}
