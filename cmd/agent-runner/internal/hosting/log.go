package hosting

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// A noteHandler is an slog handler that writes records as notes on the screen.
type noteHandler struct {
	screen *cli.Screen
	level  slog.Level
	attrs  string
}

// Enabled implements [slog.Handler].
func (h *noteHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements [slog.Handler].
func (h *noteHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%q", a.Key, a.Value)
		return true
	})
	look := cli.Faint
	if r.Level >= slog.LevelWarn {
		look = cli.Amber
	}
	h.screen.Note(look, "%s: %s%s", strings.ToLower(r.Level.String()), r.Message, b.String())
	return nil
}

// WithAttrs implements [slog.Handler].
func (h *noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	for _, a := range attrs {
		out.attrs += fmt.Sprintf(" %s=%q", a.Key, a.Value)
	}
	return &out
}

// WithGroup implements [slog.Handler]. It ignores groups, which the host does not use.
func (h *noteHandler) WithGroup(string) slog.Handler { return h }

// NewLogger returns a logger that writes to the screen: warnings, or with verbose all
// messages.
func NewLogger(s *cli.Screen, verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(&noteHandler{screen: s, level: level})
}

// RequestLogger returns the logger of a server, in the format that its flag --log names.
func RequestLogger(e *cli.Env, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(e.Err, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(e.Err, nil)), nil
	case "off":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, cli.Usagef("--log is %q; want text, json or off", format)
}
