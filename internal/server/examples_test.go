package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestExamples checks that each operation has examples of its request and its response, and that the
// examples match the schemas.
func TestExamples(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	doc := f.Services.Router.OpenAPI()
	check := func(name string, m *huma.MediaType, mode huma.ValidateMode) {
		t.Helper()
		require.NotNil(t, m.Example, "%s has no example; add one to httpapi/examples.json", name)
		text, err := json.Marshal(m.Example)
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal(text, &value))
		result := &huma.ValidateResult{}
		m.Schema.PrecomputeMessages()
		huma.Validate(doc.Components.Schemas, m.Schema, huma.NewPathBuffer(nil, 0), mode, value, result)
		require.Empty(t, result.Errors, "%s: %s", name, text)
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			if op.RequestBody != nil && op.OperationID != "put-module" { // its body is a program
				for kind, m := range op.RequestBody.Content {
					check(op.OperationID+", request in "+kind, m, huma.ModeWriteToServer)
				}
			}
			for status, r := range op.Responses {
				for kind, m := range r.Content {
					if strings.HasPrefix(status, "2") {
						check(op.OperationID+", response in "+kind, m, huma.ModeReadFromServer)
					}
				}
			}
		}
	}
}
