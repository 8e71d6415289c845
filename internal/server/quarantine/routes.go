package quarantine

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

type releaseInput struct {
	Run string `path:"run" pattern:"^run_[A-Za-z0-9_-]{1,80}$" doc:"The run's id."`
}

type quarantinedOutput struct {
	Body struct {
		Runs []api.QuarantinedRun `json:"runs" nullable:"false"`
		httpapi.ListOutput
	}
}

// Routes registers the endpoints that manage quarantined runs.
func (q *Service) Routes(rt *httpapi.Router) {
	const tag = "quarantine"
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-quarantined",
		Method:  "GET",
		Path:    "/v1/quarantine",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List quarantined runs",
		About:   "Lists runs that are not resumed because they appear to have crashed their server, with the evidence.",
	}, q.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "release-run",
		Method:  "DELETE",
		Path:    "/v1/quarantine/{run}",
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Release a quarantined run",
		About:   "A server resumes it within seconds.",
	}, q.release)
}

func (q *Service) list(
	ctx context.Context, _ *httpapi.Caller, in *httpapi.LongListInput,
) (out *quarantinedOutput, err error) {
	out = &quarantinedOutput{}
	out.Body.Runs, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListQuarantined, store.Operator, q.options.Store.Quarantined, show)
	return out, err
}

func show(e *store.Evidence) api.QuarantinedRun {
	return api.QuarantinedRun{
		Run:         e.Run,
		Tenant:      e.Tenant,
		Node:        e.Node,
		Reason:      e.Reason,
		HeldBytes:   e.Held,
		ShareBytes:  e.Share,
		UsedBytes:   e.Used,
		LimitBytes:  e.Limit,
		OutOfMemory: e.Memory,
		Created:     e.Created.UTC(),
	}
}

func (q *Service) release(ctx context.Context, _ *httpapi.Caller, in *releaseInput) (*struct{}, error) {
	return nil, q.options.Store.Release(ctx, in.Run)
}
