package admission_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestRejectionsAreDelayed checks that rejections because of a quota, an invalid key and an unknown
// path are delayed if there were too many before.
func TestRejectionsAreDelayed(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f := servertest.New(t)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"requests_per_minute": 1}}, nil)
	f.OK("GET", "/v1/keys", f.Acme, nil, nil)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name, tenant, path, key string
		status                  int
	}{
		{"quota", "acme", "/v1/keys", f.Acme, http.StatusTooManyRequests},
		{"invalid key", admission.NoKey, "/v1/keys", "ar_x", http.StatusUnauthorized},
		{"unknown path", admission.NoKey, "/v1/nothing", "", http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			reject := func() { f.Services.Admission.Rejections.Wait(canceled, c.tenant) }
			for range 1000 {
				reject()
			}
			ended := make(chan struct{})
			defer close(ended)
			go func() { // continues, so that a slow machine does not refill the budget
				for tick := time.Tick(time.Millisecond); ; reject() {
					select {
					case <-tick:
					case <-ended:
						return
					}
				}
			}()
			began := time.Now()
			f.Send("GET", c.path, c.key, nil).Problem(t, c.status)
			require.Greater(t, time.Since(began), admission.MaxDelay/2)
		})
	}
}
