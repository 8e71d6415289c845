package agents

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

var agentCheckType = reflect.TypeFor[api.AgentCheck]()

// faultyFile lists the codes of problems with the content of a file. Other problems concern the
// request.
var faultyFile = []string{api.CodeInvalid, api.CodeBlocked, api.CodeRefused}

func describeCheckAgent(op *huma.Operation, schemas huma.Registry) {
	describeFile(op)
	op.Responses["200"] = &huma.Response{Description: "The result", Content: map[string]*huma.MediaType{
		"application/json": {Schema: huma.SchemaFromType(schemas, agentCheckType)}}}
}

// checkOnly checks the agent file in a request as put does, and responds with what is wrong with it.
func (a *Service) checkOnly(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	name, body, err := readFile(r)
	if err != nil {
		return err
	}
	done, err := a.admission.Check(r.Context(), c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	out := &api.AgentCheck{Errors: []api.FieldError{}, Warnings: []string{}, Modules: []api.Entry{}}
	checked, err := a.check(sandbox.WithTenant(r.Context(), a.admission.Sharer(c.Key.Tenant)), c, name, body)
	var problem *httpapi.Problem
	switch {
	case errors.As(err, &problem) && slices.Contains(faultyFile, problem.Code()):
		out.Errors = problem.Errors
		if len(out.Errors) == 0 {
			out.Errors = []api.FieldError{{Message: problem.Detail}}
		}
	case err != nil:
		return err
	default:
		out.Valid = true
		out.Warnings = append(out.Warnings, checked.Warnings...)
		out.Modules = append(out.Modules, checked.Entries...)
	}
	if err := c.Parse(r.Context(), a.admission, len(body), func() error {
		out.File = fileJSON(name, body)
		return nil
	}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return httpapi.WriteJSON(w, out)
}

// fileJSON returns a file as JSON, or nil if it is not valid YAML.
func fileJSON(name string, body []byte) json.RawMessage {
	b, err := agentfile.JSON(name, body)
	if err != nil {
		return nil
	}
	return b
}
