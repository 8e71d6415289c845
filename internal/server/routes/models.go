package routes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// Models returns the models that the routes of a tenant's gateway name without a pattern and that the
// tenant's policy allows, and the time at which the gateway was stored.
func (s *Service) Models(ctx context.Context, t *store.Tenant) (names []string, stored time.Time, err error) {
	p, err := planOf(ctx, t)
	if _, full := errors.AsType[*store.QuotaError](err); full || errors.Is(err, store.ErrNoGateway) {
		return nil, stored, nil
	}
	if err != nil {
		return nil, stored, err
	}
	table, release, err := s.table(ctx, p)
	if err != nil {
		return nil, stored, err
	}
	defer release()
	for i := range table.Routes {
		for _, m := range table.Routes[i].Models {
			if !strings.ContainsAny(m, `*?[\`) && !slices.Contains(names, m) && p.allows(m) {
				names = append(names, m)
			}
		}
	}
	return names, p.Gateway.Created, nil
}
