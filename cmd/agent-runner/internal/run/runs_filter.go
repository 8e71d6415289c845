package run

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A runsFilter holds the flags that select runs.
type runsFilter struct {
	flags           *pflag.FlagSet
	filter          client.RunFilter
	metadata        []string
	faults, denials bool
	createdFrom     string
	createdTo       string
	updatedFrom     string
	updatedTo       string
}

// add adds the flags to a command.
func (r *runsFilter) add(cmd *cobra.Command) {
	f := cmd.Flags()
	r.flags = f
	f.StringSliceVar(&r.filter.Statuses, "status", nil,
		"list only runs with one of these statuses: `running`, paused, queued, finished or quarantined")
	f.StringVar(
		&r.filter.FinishReason,
		"finish-reason",
		"",
		"list only runs that ended for this `REASON`, such as stop or error",
	)
	f.StringVar(&r.filter.Agent, "agent", "", "list only runs of the agent `NAME`")
	f.StringVar(&r.filter.Thread, "thread", "", "list only runs of the thread with this `ID`")
	f.Int64Var(&r.filter.Version, "agent-version", 0, "list only runs of version `N` of the agent")
	f.StringVar(&r.filter.Module, "module", "", "list only runs that use the module with this `DIGEST`")
	f.StringVar(&r.filter.Title, "title", "", "list only runs whose title has words that start with these `WORDS`")
	f.StringArrayVar(
		&r.metadata,
		"metadata",
		nil,
		"list only runs with this member of metadata, as `KEY=VALUE`; can be repeated",
	)
	f.BoolVar(&r.faults, "faults", false, "list only runs with faults of modules, or without: --faults=false")
	f.BoolVar(&r.denials, "denials", false, "list only runs with denied tool calls, or without: --denials=false")
	f.StringVar(
		&r.createdFrom,
		"created-from",
		"",
		"list only runs created at this `TIME` or later, such as 2026-01-31 or 2026-01-31T08:00:00Z",
	)
	f.StringVar(&r.createdTo, "created-to", "", "list only runs created before this `TIME`")
	f.StringVar(&r.updatedFrom, "updated-from", "", "list only runs that changed last at this `TIME` or later")
	f.StringVar(&r.updatedTo, "updated-to", "", "list only runs that changed last before this `TIME`")
	f.BoolVar(&r.filter.Oldest, "oldest", false, "list the oldest runs first")
}

// parse checks the flags and returns the filter.
func (r *runsFilter) parse() (client.RunFilter, error) {
	f := r.filter
	for _, s := range f.Statuses {
		switch journal.Status(s) {
		case journal.StatusRunning, journal.StatusPaused, journal.StatusQueued,
			journal.StatusFinished, journal.StatusQuarantined:
		default:
			return f, cli.Usagef("--status is %q; want running, paused, queued, finished or quarantined", s)
		}
	}
	if f.Version != 0 && f.Agent == "" {
		return f, cli.Usagef("--agent-version needs --agent")
	}
	f.Metadata = map[string]string{}
	for _, member := range r.metadata {
		key, value, ok := strings.Cut(member, "=")
		if !ok || key == "" {
			return f, cli.Usagef("--metadata is %q; want KEY=VALUE", cli.Short(member, 60))
		}
		f.Metadata[key] = value
	}
	if r.flags.Changed("faults") {
		f.Faults = &r.faults
	}
	if r.flags.Changed("denials") {
		f.Denials = &r.denials
	}
	for _, t := range []struct {
		name, text string
		to         *time.Time
	}{
		{"created-from", r.createdFrom, &f.CreatedFrom}, {"created-to", r.createdTo, &f.CreatedTo},
		{"updated-from", r.updatedFrom, &f.UpdatedFrom}, {"updated-to", r.updatedTo, &f.UpdatedTo},
	} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			at, err = time.Parse(time.DateOnly, t.text)
		}
		if err != nil {
			return f, cli.Usagef("--%s is %q; want a day such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z",
				t.name, cli.Short(t.text, 60))
		}
		*t.to = at
	}
	return f, nil
}

// stored converts a filter for a server to one for a store.
func stored(f *client.RunFilter) store.Filter {
	s := store.Filter{
		Agent:        f.Agent,
		Version:      f.Version,
		Thread:       f.Thread,
		FinishReason: f.FinishReason,
		Module:       strings.TrimPrefix(f.Module, "sha256:"),
		Title:        f.Title,
		Metadata:     f.Metadata,
		Faults:       f.Faults,
		Denials:      f.Denials,
		CreatedFrom:  f.CreatedFrom,
		CreatedTo:    f.CreatedTo,
		UpdatedFrom:  f.UpdatedFrom,
		UpdatedTo:    f.UpdatedTo,
		Oldest:       f.Oldest,
	}
	for _, status := range f.Statuses {
		s.Statuses = append(s.Statuses, journal.Status(status))
	}
	return s
}
