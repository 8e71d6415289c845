package agentfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// The maximum numbers in a file. They are far above the needs of any agent, and low enough to bound
// the time for which a mistake or a hostile file can occupy a host.
const (
	MaxSteps       = 100_000
	maxTimeout     = Duration(30 * 24 * time.Hour)
	maxToolTimeout = Duration(24 * time.Hour)
	maxPause       = Duration(366 * 24 * time.Hour)
	maxParallel    = 256
	maxCalls       = 1_000_000
	maxRetries     = 100
	maxMCPTimeout  = Duration(10 * time.Minute)
)

// runBounds has the bounds of Limits, and moduleBounds those of ModuleLimits, by key. Durations are
// in nanoseconds and sizes in bytes. journal_bytes has no bound here, because the host limits the
// journal.
var (
	runBounds = map[string]int64{
		"max_steps": MaxSteps, "timeout": int64(maxTimeout), "tool_timeout": int64(maxToolTimeout), "pause": int64(maxPause),
		"parallel": maxParallel, "model_calls": maxCalls, "tool_calls": maxCalls,
	}
	moduleBounds = map[string]int64{
		"timeout": int64(time.Hour), "memory": 4 << 30, "fuel": 1e15, "run_fuel": 1e17, "stack_bytes": 256 << 20,
		"module_bytes": 1 << 30, "input_bytes": 1 << 30, "output_bytes": 1 << 30, "reply_bytes": 1 << 30,
		"log_bytes": 64 << 20, "log_line_bytes": 64 << 20, "host_calls": 1 << 30, "instances": 1 << 16, "nesting": 1024,
	}
)

// A bounded is a number in a file that exceeds its bound.
type bounded struct {
	at, name     string
	value, bound string
	lower        func() // sets the number to its bound
}

func (b *bounded) err() error {
	return fmt.Errorf("%s: %s exceeds the maximum of %s; lower it", b.name, b.value, b.bound)
}

// CheckBounds returns an error if a number in f or in one of its sub-agents exceeds its maximum.
// Parse does not call CheckBounds, so that it can read files that are older than a bound.
func CheckBounds(f *File) error {
	if beyond := f.beyond(); len(beyond) > 0 {
		return ErrorAt(f, beyond[0].at, beyond[0].err())
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			if err := CheckBounds(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// BoundFields lowers the numbers that CheckBounds rejects to their bounds. It returns a sentence
// about each of them, for a warning.
func BoundFields(f *File) []string {
	var out []string
	for _, b := range f.beyond() {
		b.lower()
		out = append(out, fmt.Sprintf("%s is %s; the agent runs with the maximum of %s", b.at, b.value, b.bound))
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			for _, text := range BoundFields(inner) {
				out = append(out, fmt.Sprintf("agents[%d]: %s", i, text))
			}
		}
	}
	return out
}

// beyond returns the numbers of f that exceed their bounds, without those of sub-agents.
func (f *File) beyond() []bounded {
	out := over("limits", &f.Limits, runBounds)
	for _, name := range slices.Sorted(maps.Keys(f.Limits.Tools)) {
		if n := f.Limits.Tools[name]; n > maxCalls {
			out = append(
				out,
				bounded{
					"limits.tools." + name,
					name,
					fmt.Sprint(n),
					fmt.Sprint(maxCalls),
					func() { f.Limits.Tools[name] = maxCalls },
				},
			)
		}
	}
	if n := f.Model.Retries; n != nil && *n > maxRetries {
		out = append(
			out,
			bounded{"model.retries", "retries", fmt.Sprint(*n), fmt.Sprint(maxRetries), func() { *n = maxRetries }},
		)
	}
	for i := range f.Tools.MCP {
		out = append(
			out,
			over(fmt.Sprintf("tools.mcp[%d]", i), &f.Tools.MCP[i], map[string]int64{"timeout": int64(maxMCPTimeout)})...)
	}
	for _, list := range []struct {
		at      string
		entries []Middleware
	}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
		for i := range list.entries {
			out = append(out, over(fmt.Sprintf("%s[%d].limits", list.at, i), &list.entries[i].Limits, moduleBounds)...)
		}
	}
	return out
}

// over returns the fields of the struct of that exceed their bounds. bounds maps the keys of fields
// to their bounds. at is the path of the struct in the file.
func over[T any](at string, of *T, bounds map[string]int64) (out []bounded) {
	v := reflect.ValueOf(of).Elem()
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		field, bound := v.FieldByIndex(fields[name]), bounds[name]
		if field.Int() > bound {
			out = append(
				out,
				bounded{
					at + "." + name,
					name,
					numberText(field.Type(), field.Int()),
					numberText(field.Type(), bound),
					func() { field.SetInt(bound) },
				},
			)
		}
	}
	return out
}

// numberText formats n as an agent file has it: with units if t is [Duration].
func numberText(t reflect.Type, n int64) string {
	if t == reflect.TypeFor[Duration]() {
		return time.Duration(n).String()
	}
	return fmt.Sprint(n)
}
