package javascript

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Limits on the source lines in an error.
const (
	frameLines  = 2   // lines quoted before the position, and as many after it
	frameColumn = 160 // maximum number of bytes quoted of a line
)

// frame formats source lines with a mark at a position. The argument first is the number of the
// first line. Lines and columns start at 1, and columns count bytes.
func frame(lines []string, first, line, column int) string {
	width := len(fmt.Sprint(first + len(lines) - 1))
	var b strings.Builder
	for i, text := range lines {
		number, mark := first+i, "  "
		if number == line {
			mark = "> "
		}
		shown := strings.ReplaceAll(text, "\t", " ")
		if len(shown) > frameColumn {
			shown = truncate.Text(shown, frameColumn) + "…"
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s%*d | %s", mark, width, number, shown)
		if number == line && column >= 1 && column <= len(text)+1 && column <= frameColumn {
			fmt.Fprintf(&b, "\n  %*s | %s^", width, "", strings.Repeat(" ", utf8.RuneCountInString(text[:column-1])))
		}
	}
	return b.String()
}
