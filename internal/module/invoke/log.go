package invoke

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// log passes text to LogFunc or, by default, to the log of the call.
func (inv *Invocation) log(level int32, text string) {
	switch {
	case inv.LogFunc != nil:
		inv.LogFunc(level, text)
	case inv.Call != nil:
		inv.wait(func() { inv.Call.Log(level, text) })
	}
}

// rewrite returns the result of Readable for text, or text if Readable is nil.
func (inv *Invocation) rewrite(text string) string {
	if inv.Readable == nil {
		return text
	}
	return inv.Readable(text)
}

// Print logs a line that the guest printed.
func (inv *Invocation) Print(line []byte) {
	text := inv.rewrite(string(line))
	inv.Remember(text)
	inv.log(contract.LogInfo, text)
}

// logRoom returns how many of n bytes of log text the limits allow. It logs a warning when
// log_bytes is first exceeded.
func (inv *Invocation) logRoom(n int) int {
	left := inv.Limits.LogBytes - inv.logged
	inv.logged += n
	if left > 0 && n > left {
		inv.log(contract.LogWarn,
			fmt.Sprintf("dropping further log text of this hook: it exceeds the limit log_bytes of %d", inv.Limits.LogBytes))
	}
	return max(0, min(n, left, inv.Limits.LogLineBytes))
}

// LogGuest logs the guest's text of n bytes, truncated to the limits on log text. The function read
// returns the first keep bytes of the text.
func (inv *Invocation) LogGuest(g *sandbox.Guest, level int32, n int, read func(keep int) []byte) {
	keep := inv.logRoom(n)
	if keep == 0 && n > 0 {
		return
	}
	inv.ChargeBytes(g, keep)
	text := read(keep)
	inv.BytesOut += int64(keep)
	if keep < n {
		text = truncate.Whole(text)
		text = fmt.Appendf(text, "… (%d bytes more)", n-len(text))
	}
	if level >= contract.LogError {
		g.Explain(text) // SDKs log the cause before they trap
	}
	shown := inv.rewrite(string(text))
	inv.Remember(shown)
	inv.wait(func() { inv.log(level, shown) })
}

// Limits on the log lines that a fault contains.
const (
	recentLines = 16
	recentBytes = 1 << 10 // per line
)

// Remember stores a line that the guest printed or logged, for the report of a fault. Only the last
// recentLines lines are stored.
func (inv *Invocation) Remember(text string) {
	text = Printable(text, recentBytes)
	if len(inv.Recent) == recentLines {
		inv.Recent = append(inv.Recent[:0], inv.Recent[1:]...)
	}
	inv.Recent = append(inv.Recent, text)
}

// Printable truncates s to limit bytes and then appends "…". It replaces characters that are not printable, except
// tabs, with U+FFFD.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = truncate.Text(s, limit) + "…"
	}
	return strings.Map(func(c rune) rune {
		if c == '\t' || unicode.IsPrint(c) {
			return c
		}
		return utf8.RuneError
	}, s)
}
