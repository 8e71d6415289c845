package runs

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

const aboutList = httpapi.AboutLists + `

Runs match all parameters. A page examines at most 5,000 runs, so it may have fewer runs than the limit, or none,
and a next_cursor.`

// maxMetadataFilters is the maximum number of members of metadata that a list filters by.
const maxMetadataFilters = 8

type listRunInput struct {
	Agent        string                 `query:"agent" maxLength:"63" doc:"Only runs of this agent."`
	Version      int64                  `query:"version" minimum:"1" doc:"Only runs of this version of the agent. Needs agent."`
	Thread       string                 `query:"thread" pattern:"^thr_[A-Za-z0-9_-]{1,80}$" doc:"Only runs of this thread."`
	Status       []string               `query:"status,explode" maxItems:"5" enum:"running,paused,queued,finished,quarantined" doc:"Only runs with one of these statuses. Repeat the parameter for several."`
	FinishReason string                 `query:"finish_reason" maxLength:"40" pattern:"^[a-z_]*$" doc:"Only runs that ended for this reason, such as stop, error, canceled or limit."`
	Module       string                 `query:"module" pattern:"^(sha256:)?[0-9a-f]{64}$" doc:"Only runs that use the module with this digest."`
	Title        string                 `query:"title" maxLength:"200" doc:"Only runs whose title has, for each of these words, a word that starts with it. Upper and lower case are equal. The first 32 words of a title are searched."`
	Metadata     map[string]string      `query:"metadata,deepObject" doc:"Only runs with these members of metadata, such as metadata[customer]=acme. Numbers and booleans are compared as text."`
	Faults       httpapi.Optional[bool] `query:"faults" doc:"Only runs with (true) or without (false) faults of modules."`
	Denials      httpapi.Optional[bool] `query:"denials" doc:"Only runs with (true) or without (false) denied tool calls."`
	CreatedFrom  time.Time              `query:"created_from" doc:"Only runs created at this time or later."`
	CreatedTo    time.Time              `query:"created_to" doc:"Only runs created before this time."`
	UpdatedFrom  time.Time              `query:"updated_from" doc:"Only runs that changed last at this time or later."`
	UpdatedTo    time.Time              `query:"updated_to" doc:"Only runs that changed last before this time."`
	Order        string                 `query:"order" enum:"newest,oldest" default:"newest" doc:"Whether the newest or the oldest run is first."`
	Before       time.Time              `query:"before" deprecated:"true" doc:"Only runs created before this time. Deprecated: use created_to."`
	Limit        int                    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"Maximum number of runs. A page of large runs has fewer."`
	httpapi.CursorInput
}

// filter returns the store's filter. It fails with a [*httpapi.Problem] if parameters are invalid.
func (in *listRunInput) filter() (*store.Filter, error) {
	f := &store.Filter{
		Agent:        in.Agent,
		Version:      in.Version,
		Thread:       in.Thread,
		FinishReason: in.FinishReason,
		Module:       httpapi.TrimDigest(in.Module),
		Title:        in.Title,
		Metadata:     in.Metadata,
		Faults:       in.Faults.Pointer(),
		Denials:      in.Denials.Pointer(),
		CreatedFrom:  in.CreatedFrom,
		CreatedTo:    in.CreatedTo,
		UpdatedFrom:  in.UpdatedFrom,
		UpdatedTo:    in.UpdatedTo,
		Oldest:       in.Order == "oldest",
	}
	for _, s := range in.Status {
		f.Statuses = append(f.Statuses, journal.Status(s))
	}
	if in.Version != 0 && in.Agent == "" {
		return nil, httpapi.NewParameterProblem("version", "version needs agent")
	}
	if len(in.Metadata) > maxMetadataFilters {
		return nil, httpapi.NewParameterProblem("metadata", "at most 8 members of metadata are allowed")
	}
	for key, text := range in.Metadata {
		if !terms.MetadataKey.MatchString(key) || len(text) > terms.MaxMetadataValue {
			return nil, httpapi.NewParameterProblem("metadata",
				"runs are found by keys of at most 64 letters, digits, '.', '_' and '-', and by values of at most 256 bytes")
		}
	}
	return f, nil
}

type listRunOutput struct {
	Body struct {
		Runs []*api.Run `json:"runs" nullable:"false"`
		httpapi.ListOutput
	}
}

func (r *Service) list(ctx context.Context, c *httpapi.Caller, in *listRunInput) (*listRunOutput, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	if f.Page, err = in.Page(httpapi.ListRuns, c.Tenant.ID(), in.Limit); err != nil {
		return nil, err
	}
	if !in.Before.IsZero() {
		if f.After != nil {
			return nil, httpapi.NewParameterProblem("before", "before and cursor are mutually exclusive; send only the cursor")
		}
		f.After = &store.Position{Created: in.Before}
	}
	if f.Thread != "" {
		if _, err := c.Thread(ctx, f.Thread); err != nil {
			return nil, err
		}
	}
	infos, next, err := c.Tenant.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &listRunOutput{}
	out.Body.Runs = []*api.Run{}
	out.Body.SetNext(httpapi.ListRuns, c.Tenant.ID(), next)
	for i := range infos {
		out.Body.Runs = append(out.Body.Runs, r.showRun(&infos[i]))
	}
	return out, nil
}
