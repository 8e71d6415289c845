package replays

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// dryRunTimeout limits the duration of a dry run, because a client waits for it.
const dryRunTimeout = 30 * time.Second

func describeDryRun(op *huma.Operation, schemas huma.Registry) {
	text := &huma.Schema{Type: "string"}
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content:  map[string]*huma.MediaType{"application/yaml": {Schema: text}},
	}
	op.Parameters = append(op.Parameters,
		&huma.Param{Name: "run", In: "path", Required: true, Schema: &huma.Schema{Type: "string", Pattern: runID.String()},
			Description: "The run's id."},
		&huma.Param{Name: "agent", In: "query", Schema: text,
			Description: "The name of the agent in the file, which need not exist. Default: the agent of the run."})
	op.Responses["200"] = &huma.Response{Description: "What would differ", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemas.Schema(reflect.TypeFor[api.ReplayedRun](), true, "ReplayedRun")}}}
}

// dryRun replays a stored run with the agent file in a request, and responds with the differences.
func (s *Service) dryRun(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	if err := c.Require(httpapi.AgentsWrite); err != nil {
		return err
	}
	body, err := agents.ReadBody(r)
	if err != nil {
		return err
	}
	id := r.PathValue("run")
	done, err := s.o.Admission.Check(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	info, err := c.Tenant.Run(r.Context(), id)
	if err != nil {
		return err
	}
	if info.Status != journal.StatusFinished {
		return httpapi.NewProblem(api.CodeConflict, "run %s has not finished", id)
	}
	draft, err := s.agents.Draft(r.Context(), c, cmp.Or(r.URL.Query().Get("agent"), info.Agent), body)
	if err != nil {
		return err
	}
	result, err := s.try(r.Context(), c, id, draft)
	if err != nil {
		return err
	}
	result.Number, result.Run = 1, id
	w.Header().Set("Content-Type", "application/json")
	return httpapi.WriteJSON(w, result)
}

// try replays a run with a draft. If the replay fails, the result has the reason. try returns an
// error only if the client has disconnected.
func (s *Service) try(
	ctx context.Context,
	c *httpapi.Caller,
	id string,
	draft *agents.Draft,
) (*api.ReplayedRun, error) {
	limited, cancel := context.WithTimeoutCause(ctx, dryRunTimeout, errTimeout)
	defer cancel()
	result, err := s.replay(limited, c.Tenant, "", id,
		func(ctx context.Context, own agents.Spec, o *host.FileOptions) (*agentfile.File, error) {
			return s.agents.RerunDraft(ctx, c.Tenant, own, draft, o)
		})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return &api.ReplayedRun{Outcome: failed, Reason: fmt.Sprintf("the replay took longer than %v", dryRunTimeout)}, nil
	case err != nil:
		return s.explain(ctx, c.Tenant, id, err), nil
	}
	return result, nil
}
