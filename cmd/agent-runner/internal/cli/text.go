package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/suggest"
)

// OneLine replaces each sequence of white space in s with one space. It removes white space at both
// ends.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// List joins items with commas. If there are no items, it returns the value of none.
func List[T ~string](items []T, none string) string {
	if len(items) == 0 {
		return none
	}
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = string(item)
	}
	return strings.Join(out, ", ")
}

// Size formats a number of bytes with a binary unit, such as "1.5 MiB".
func Size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// PrintJSON writes v as indented JSON to standard output.
func PrintJSON(e *Env, v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Short truncates s to limit characters for display, including an ellipsis.
func Short(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Count formats a number with a noun, which gets a plural s unless n is 1.
func Count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// After returns prefix followed by s, or an empty string if s is empty.
func After(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// Ago formats the age d in seconds, minutes, hours or days, such as "5m ago".
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

// Since returns the time since t, such as "5m ago".
func Since(t time.Time) string { return Ago(time.Since(t)) }

// Thousands formats a number with thousands separators, such as "1,234,567".
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ParseDays parses text, the value of the named flag: a Go duration that is not negative, or a
// number of days such as "30d".
func ParseDays(flag, text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, Usagef("--%s is %q; want days, hours or minutes, such as 30d, 12h or 90m", flag, text)
}

// Among returns a suffix for an error about an unknown name: the most similar of names, all
// names, or, if there are none, the flags that name modules.
func Among(name string, names []string) string {
	switch near := suggest.Closest(name, names); {
	case len(near) > 0:
		return fmt.Sprintf("; did you mean %q?", near[0])
	case len(names) == 0:
		return "; name modules with -m or -f"
	}
	return "; there are " + strings.Join(names, ", ")
}

// Clean makes text from models, tools and modules safe for a terminal. It escapes bidirectional
// formatting characters and control characters except newlines and tabs, and replaces invalid
// UTF-8.
func Clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n")
	if strings.IndexFunc(s, unsafe) < 0 {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case !unsafe(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

func unsafe(c rune) bool {
	switch {
	case c == '\n', c == '\t':
		return false
	case c < 0x20, c >= 0x7f && c < 0xa0: // C0, DEL, C1
		return true
	case c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069: // bidirectional formatting
		return true
	}
	return false
}
