// Command trace is a middleware that writes a line for each operation and event of a run:
// as OpenTelemetry's spans and log records in JSON, or as text for people. It omits the
// content of the conversation by default.
package main

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "trace",
		Version:     "1.0.0",
		Description: "Writes each event of a run as a line of OpenTelemetry's JSON, or for people to read.",
		// Chunk events are excluded because message events have their text, and log events because
		// each line would cause another.
		Events: slices.DeleteFunc(
			middleware.EventTypes(),
			func(e abi.EventType) bool { return e == abi.EventChunk || e == abi.EventLog },
		),
	}, newTracer())
}

func main() {}

func newTracer() *tracer {
	return &tracer{Format: formatOTLP, Level: "debug", MaxContent: 1000, Times: true}
}

// Formats of lines.
const (
	formatOTLP = "otlp"
	formatText = "text"
)

// levels holds the names of the levels of the import "log", in order.
var levels = []string{"debug", "info", "warn", "error"}

// Limits below the host's for the size of a log line, and for the bytes and lines that a
// hook may log. They leave room for a line that reports dropped lines.
const (
	maxLine  = 4000
	maxBytes = 60 << 10
	maxLines = 250
)

type tracer struct {
	Format     string `json:"format" doc:"otlp: JSON, in the form of OpenTelemetry's spans and log records; text: for people"`
	Level      string `json:"level" doc:"the least important lines to write: debug, info, warn or error"`
	Content    bool   `json:"content" doc:"write contents, too: answers, arguments, results, error messages, data of events"`
	MaxContent int    `json:"max_content" doc:"of each text, how many bytes are written at most, 1 to 3000"`
	Times      bool   `json:"times" doc:"with text: include times and durations; without them, the lines of two equal runs are equal"`

	minimum int
}

// Configure validates the configuration.
func (t *tracer) Configure(*middleware.Context) error {
	t.minimum = slices.Index(levels, t.Level)
	switch {
	case t.Format != formatOTLP && t.Format != formatText:
		return invalid("format: %q is not one of otlp, text", t.Format)
	case t.minimum < 0:
		return invalid("level: %q is not one of debug, info, warn, error", t.Level)
	case t.MaxContent < 1 || t.MaxContent > 3000:
		return invalid("max_content: %d is not 1 to 3000", t.MaxContent)
	case !t.Times && t.Format == formatOTLP:
		return invalid("times: OpenTelemetry's lines have times; times: false goes with format: text")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + fmt.Sprintf(format, args...)}
}

// openSpans stores the unfinished operations. The first and the last event of an operation may
// arrive in two batches, and the host may discard the module's memory between them.
var openSpans = middleware.Local[open]("open")

// Observe writes lines for the events, within the limits of the log. If it drops lines, the last line
// reports their number.
func (t *tracer) Observe(ctx *middleware.Context, events []abi.Event) error {
	o, _, err := openSpans.Get(ctx)
	if err != nil {
		return err
	}
	o.where(&ctx.Run)
	bytes, lines, dropped := 0, 0, 0
	for i := range events {
		for _, it := range o.items(&events[i]) {
			if it.level < t.minimum {
				continue
			}
			line := t.line(&it, &o)
			if bytes+len(line) > maxBytes || lines == maxLines {
				dropped++
				continue
			}
			bytes, lines = bytes+len(line), lines+1
			log(ctx, it.level, line)
		}
	}
	if dropped > 0 {
		log(
			ctx,
			middleware.LogWarn,
			t.line(&item{name: "agent_runner.dropped", level: middleware.LogWarn, end: ctx.Run.NowMS, parent: o.id("run"),
				attrs: []attr{{"agent_runner.lines", dropped}}}, &o),
		)
	}
	return openSpans.Set(ctx, o)
}

// log writes a line to the run's log at a level of the import "log".
func log(ctx *middleware.Context, level int, line string) {
	[]func(string, ...any){ctx.Debugf, ctx.Infof, ctx.Warnf, ctx.Errorf}[level]("%s", line)
}

// line formats an item. If content is on, line halves the limit for content attributes until the
// line has at most maxLine bytes, or no content.
func (t *tracer) line(it *item, o *open) string {
	limit := 0
	if t.Content {
		limit = t.MaxContent
	}
	for {
		line := ""
		if t.Format == formatOTLP {
			line = it.otlp(o, limit)
		} else {
			line = it.text(o, limit, t.Times)
		}
		if len(line) <= maxLine || limit == 0 {
			return line
		}
		limit /= 2
	}
}
