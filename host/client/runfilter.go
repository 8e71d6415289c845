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
	Thread       string   // the thread that the runs continue
	Statuses     []string // "running", "paused", "queued", "finished" and "quarantined"
	FinishReason string   // such as "stop" or "error"
	Module       string   // digest of a module that the runs use
	// Title holds words. Each word must be the beginning of a word in the title of a selected run.
	Title string
	// Metadata holds members of the runs' metadata. Numbers and booleans are compared as text.
	Metadata map[string]string
	// Faults and Denials select runs with (true) or without (false) faults or denied tool calls; nil
	// selects all.
	Faults, Denials *bool
	// CreatedFrom and UpdatedFrom are inclusive bounds, and CreatedTo and UpdatedTo exclusive ones. A
	// zero time is no bound.
	CreatedFrom, CreatedTo, UpdatedFrom, UpdatedTo time.Time
	// Oldest lists the oldest run first. The default is the newest.
	Oldest bool
}

// add adds the filter to query parameters.
func (f *RunFilter) add(q url.Values) {
	for name, value := range map[string]string{
		"agent": f.Agent, "finish_reason": f.FinishReason, "module": f.Module, "title": f.Title,
		"thread": f.Thread,
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
