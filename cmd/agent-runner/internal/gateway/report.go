package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/gateway"
)

// maxNotes limits the decisions and faults that a report prints.
const maxNotes = 20

// A report collects the effects of modules on the requests of a program. It is safe for concurrent
// use.
type report struct {
	mu       sync.Mutex
	requests int
	failed   int
	tokens   int64
	// cacheBreak counts the tokens that the upstream's prompt cache lost.
	cacheBreak int64
	entries    map[string]*abi.EntryStats
	notes      []string
	more       int // number of notes beyond maxNotes
}

// event adds an event of a request.
func (r *report) event(e abi.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Type {
	case abi.EventDecision:
		if d := e.Decision; d.Decision == abi.DecideDeny || d.Decision == abi.DecideStop || d.Decision == abi.Reject {
			r.note(e.Entry + " denied a call of " + d.Tool + ": " + cli.Short(cli.OneLine(d.Reason), 200))
		}
	case abi.EventCustom:
		r.cacheBreak += gateway.CacheBreakOf(&e)
	case abi.EventFault:
		r.note(e.Entry + " failed in " + string(e.Hook) + ": " + cli.Short(cli.OneLine(e.Cause), 200))
	case abi.EventRunFinished:
		r.finished(&e)
	}
}

func (r *report) note(text string) {
	if len(r.notes) == maxNotes {
		r.more++
		return
	}
	r.notes = append(r.notes, text)
}

func (r *report) finished(e *abi.Event) {
	r.requests++
	if e.Error != nil {
		r.failed++
		r.note("a request failed: " + cli.Short(cli.OneLine(e.Error.Message), 200))
	}
	if e.Usage != nil {
		r.tokens += e.Usage.TotalTokens
	}
	if r.entries == nil {
		r.entries = map[string]*abi.EntryStats{}
	}
	for i := range e.Entries {
		s := &e.Entries[i]
		sum := r.entries[s.Entry]
		if sum == nil {
			sum = &abi.EntryStats{Entry: s.Entry}
			r.entries[s.Entry] = sum
		}
		sum.Calls, sum.WallUS = sum.Calls+s.Calls, sum.WallUS+s.WallUS
	}
}

// print prints the report.
func (r *report) print(s *cli.Screen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Note(cli.Faint, "agent-runner: %s, %s", cli.Count(int64(r.requests), "request"), cli.Count(r.tokens, "token"))
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		e := r.entries[name]
		took := (time.Duration(e.WallUS) * time.Microsecond).Round(100 * time.Microsecond)
		s.Note(cli.Faint, "  %s: %s, %v", name, cli.Count(e.Calls, "hook call"), took)
	}
	if r.cacheBreak > 0 {
		s.Note(cli.Amber, "  modules changed about %s in front of prompt-cache breakpoints, which the model reads anew",
			cli.Count(r.cacheBreak, "token"))
	}
	for _, text := range r.notes {
		s.Note(cli.Amber, "  %s", text)
	}
	if r.more > 0 {
		s.Note(cli.Amber, "  and %d more", r.more)
	}
	if r.requests == 0 {
		s.Note(
			cli.Amber,
			"  the program sent no request to the gateway: its own settings may name another address",
		)
	}
}
