package server

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// OperatorKey creates an API key of the operator and returns its text. If another is false, it
// creates only the first key, and returns "" if the operator has a valid one. The store has only
// hashes of keys, so the key cannot be read again.
func (s *Server) OperatorKey(ctx context.Context, another bool) (string, error) {
	operator := s.options.Store.Tenant(store.Operator)
	o := &store.KeyOptions{Name: "operator", Scopes: httpapi.OperatorScopes()}
	if another {
		_, key, err := operator.CreateKey(ctx, o)
		return key, err
	}
	return operator.CreateFirstKey(ctx, o)
}
