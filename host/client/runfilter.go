package client

import (
	"net/url"
	"strconv"
	"time"
)

// A RunFilter selects the runs that match all of its fields. The zero value selects all.
type RunFilter struct {
	Agent        string
	Version      int64    // version of Agent; 0 selects all
	Statuses     []string // "running", "paused", "finished" and "quarantined"
	FinishReason string   // such as "stop" or "error"
	Module       string   // digest of a module that the runs use
	// Title holds words. The title of a run must have, for each, a word that starts with it.
	Title string
	// Metadata holds members of the runs' metadata. Numbers and booleans are compared as text.
	Metadata map[string]string
	// Faults and Denials select runs with or without them; nil selects all.
	Faults, Denials *bool
	// CreatedFrom and the other times are bounds; a zero time is none. From includes the time, and To
	// excludes it.
	CreatedFrom, CreatedTo, UpdatedFrom, UpdatedTo time.Time
	Oldest                                         bool // the oldest run is first, not the newest
}

// add adds the filter to query parameters.
func (f *RunFilter) add(q url.Values) {
	for name, value := range map[string]string{
		"agent": f.Agent, "finish_reason": f.FinishReason, "module": f.Module, "title": f.Title,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{
		"created_from": f.CreatedFrom, "created_to": f.CreatedTo, "updated_from": f.UpdatedFrom, "updated_to": f.UpdatedTo,
	} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, want := range map[string]*bool{"faults": f.Faults, "denials": f.Denials} {
		if want != nil {
			q.Set(name, strconv.FormatBool(*want))
		}
	}
	for key, value := range f.Metadata {
		q.Set("metadata["+key+"]", value)
	}
	if f.Version != 0 {
		q.Set("version", strconv.FormatInt(f.Version, 10))
	}
	if len(f.Statuses) > 0 {
		q["status"] = f.Statuses
	}
	if f.Oldest {
		q.Set("order", "oldest")
	}
}
