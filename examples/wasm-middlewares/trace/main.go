// Command trace is a middleware that writes down what a run does, a line for each
// operation and event: as OpenTelemetry has spans and log records, in JSON, or for
// people to read. Of what was said it writes nothing unless it is asked to.
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
		// Not chunk, whose text is in message; not log: a log of logs has no end.
		Events: slices.DeleteFunc(abi.EventTypes(), func(e abi.EventType) bool { return e == abi.EventChunk || e == abi.EventLog }),
	}, newTracer())
}

func main() {}

func newTracer() *tracer {
	return &tracer{Format: formatOTLP, Level: "debug", MaxContent: 1000, Times: true}
}

// The forms of lines.
const (
	formatOTLP = "otlp"
	formatText = "text"
)

// levels are those of the log import, by their numbers.
var levels = []string{"debug", "info", "warn", "error"}

// The host cuts a line of a log, drops what a hook logs beyond a number of bytes,
// and beyond a number of lines. These keep a line whole, and leave room to say
// that there are more.
const (
	maxLine  = 4000
	maxBytes = 60 << 10
	maxLines = 250
)

type tracer struct {
	Format     string `json:"format" doc:"otlp: JSON, in the form of OpenTelemetry's spans and log records; text: for people"`
	Level      string `json:"level" doc:"the least important lines to write: debug, info, warn or error"`
	Content    bool   `json:"content" doc:"write what was said, too: answers, arguments, results, messages of errors, data of events"`
	MaxContent int    `json:"max_content" doc:"of each text, how many bytes are written at most, 1 to 3000"`
	Times      bool   `json:"times" doc:"with text: say when and how long; without it the lines of two equal runs are equal"`

	least int
}

// Configure checks the configuration.
func (t *tracer) Configure(*middleware.Context) error {
	t.least = slices.Index(levels, t.Level)
	switch {
	case t.Format != formatOTLP && t.Format != formatText:
		return invalid("format: %q is not one of otlp, text", t.Format)
	case t.least < 0:
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

// kept is what of the run is not over. The events of a call's begin and end may come
// in two batches, and the module's memory may be gone between them.
var kept = middleware.Local[open]("open")

// Observe writes the lines.
func (t *tracer) Observe(ctx *middleware.Context, events []abi.Event) error {
	o, _, err := kept.Get(ctx)
	if err != nil {
		return err
	}
	o.where(&ctx.Run)
	bytes, lines, dropped := 0, 0, 0
	for i := range events {
		for _, it := range o.items(&events[i]) {
			if it.level < t.least {
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
		log(ctx, abi.LogWarn, t.line(&item{name: "agent_runner.dropped", level: abi.LogWarn, end: ctx.Run.NowMS, parent: o.id("run"),
			attrs: []attr{{"agent_runner.lines", dropped}}}, &o))
	}
	return kept.Set(ctx, o)
}

func log(ctx *middleware.Context, level int, line string) {
	[]func(string, ...any){ctx.Debugf, ctx.Infof, ctx.Warnf, ctx.Errorf}[level]("%s", line)
}

// line writes an item, with as much of what was said as a line has room for.
func (t *tracer) line(it *item, o *open) string {
	most := 0
	if t.Content {
		most = t.MaxContent
	}
	for {
		line := ""
		if t.Format == formatOTLP {
			line = it.otlp(o, most)
		} else {
			line = it.text(o, most, t.Times)
		}
		if len(line) <= maxLine || most == 0 {
			return line
		}
		most /= 2
	}
}
