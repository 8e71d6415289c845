package server

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// OperatorKey creates the operator's first API key, or another one. It returns "" if there
// is a key already and another is not wanted. Keys are stored as hashes: this is the only
// time that the key is readable.
func (s *Server) OperatorKey(ctx context.Context, another bool) (string, error) {
	operator := s.options.Store.Tenant(store.Operator)
	o := &store.KeyOptions{Name: "operator", Scopes: httpapi.OperatorScopes()}
	if another {
		_, key, err := operator.CreateKey(ctx, o)
		return key, err
	}
	return operator.CreateFirstKey(ctx, o)
}
