package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A value is OpenTelemetry's AnyValue in JSON.
type value struct {
	String *string `json:"stringValue,omitempty"`
	Int    string  `json:"intValue,omitempty"` // OTLP JSON encodes 64-bit integers as strings
	Array  *struct {
		Values []value `json:"values"`
	} `json:"arrayValue,omitempty"`
}

type keyValue struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// A span is OpenTelemetry's Span in JSON.
type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	Parent     string     `json:"parentSpanId,omitempty"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"` // 1: internal, 3: client
	Begin      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes []keyValue `json:"attributes"`
	Status     *status    `json:"status,omitempty"`
}

type status struct {
	Code    int    `json:"code"` // 2: an error
	Message string `json:"message"`
}

// A record is OpenTelemetry's LogRecord in JSON.
type record struct {
	Time       string     `json:"timeUnixNano"`
	Number     int        `json:"severityNumber"`
	Severity   string     `json:"severityText"`
	Event      string     `json:"eventName"`
	Attributes []keyValue `json:"attributes"`
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId,omitempty"`
}

// otlp formats an item as a line of JSON. It cuts each content attribute to limit bytes, and omits
// the content if limit is 0.
func (it *item) otlp(o *open, limit int) string {
	attrs := []keyValue{text("agent_runner.run.id", o.Run)}
	if o.Agent != "" {
		attrs = append(attrs, text("gen_ai.agent.name", o.Agent))
	}
	if it.step > 0 {
		attrs = append(attrs, keyValue{"agent_runner.step", anyValue(it.step)})
	}
	for _, a := range it.attrs {
		attrs = append(attrs, keyValue{a.key, anyValue(a.value)})
	}
	if it.failed != "" {
		attrs = append(attrs, text("error.type", it.failed))
	}
	for _, a := range it.content {
		if limit > 0 {
			attrs = append(attrs, text(a.key, cut(a.value.(string), limit)))
		}
	}
	var line any
	if it.id == "" {
		line = &record{
			nanos(it.end),
			[]int{5, 9, 13, 17}[it.level],
			strings.ToUpper(levels[it.level]),
			it.name,
			attrs,
			o.trace(),
			it.parent,
		}
	} else {
		s := &span{
			TraceID:    o.trace(),
			SpanID:     it.id,
			Parent:     it.parent,
			Name:       it.name,
			Kind:       1,
			Begin:      nanos(it.begin),
			End:        nanos(it.end),
			Attributes: attrs,
		}
		if it.client {
			s.Kind = 3
		}
		if it.failed != "" {
			s.Status = &status{2, it.failed}
		}
		line = s
	}
	b, err := json.Marshal(line)
	if err != nil {
		return `{"error":"a line could not be written"}` // unreachable: the line has only strings and numbers
	}
	return string(b)
}

func text(key, s string) keyValue { return keyValue{key, anyValue(s)} }

func anyValue(v any) value {
	switch v := v.(type) {
	case string:
		return value{String: &v}
	case []string:
		out := value{Array: &struct {
			Values []value `json:"values"`
		}{}}
		for i := range v {
			out.Array.Values = append(out.Array.Values, anyValue(v[i]))
		}
		return out
	default:
		return value{Int: fmt.Sprint(v)}
	}
}

func nanos(ms int64) string { return strconv.FormatInt(ms, 10) + "000000" }

// short removes the common prefixes of keys.
var short = strings.NewReplacer("agent_runner.", "", "gen_ai.", "")

// text formats an item as a line for people. It cuts each content attribute to limit bytes, and
// omits the content if limit is 0.
func (it *item) text(o *open, limit int, times bool) string {
	var b strings.Builder
	if times {
		b.WriteString(time.UnixMilli(it.end).UTC().Format("15:04:05.000 "))
	}
	if it.step > 0 {
		fmt.Fprintf(&b, "step %d: ", it.step)
	}
	b.WriteString(strings.Map(printable, short.Replace(it.name)))
	if it.id != "" && times {
		fmt.Fprintf(&b, ", %d ms", it.end-it.begin)
	}
	if it.failed != "" {
		b.WriteString(" failed: " + it.failed)
	}
	for _, a := range it.attrs {
		if a.key == "gen_ai.operation.name" || a.key == "gen_ai.tool.name" || a.key == "agent_runner.wall_us" && !times {
			continue // already part of the name, or a time
		}
		fmt.Fprintf(&b, " %s=%s", short.Replace(a.key), word(a.value))
	}
	for _, a := range it.content {
		if limit > 0 {
			fmt.Fprintf(&b, " %s=%s", short.Replace(a.key), strconv.Quote(cut(a.value.(string), limit)))
		}
	}
	return b.String()
}

// word formats a value for a line. It quotes a value that is empty or contains spaces, quotes or
// unprintable characters.
func word(v any) string {
	if list, ok := v.([]string); ok {
		v = strings.Join(list, ",")
	}
	s := fmt.Sprint(v)
	if s == "" ||
		strings.ContainsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == '"' }) {
		return strconv.Quote(s)
	}
	return s
}

func printable(c rune) rune {
	if unicode.IsPrint(c) {
		return c
	}
	return '?'
}

// cut shortens s to at most limit bytes without splitting a character. If it removes anything, it
// appends "…", which does not count towards the limit.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
