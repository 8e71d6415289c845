package runs

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// FuzzLastEventID checks that a position in an event stream is rejected or not negative.
func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{
		"", "0", "7", "-1", "9223372036854775807", "9223372036854775808", "1e3", "0x10", " 1", "1\x00", "٣",
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, header, query string) {
		req := httptest.NewRequest("GET", "/v1/runs/run_1/events", nil)
		req.Header["Last-Event-Id"] = []string{header}
		q := req.URL.Query()
		q.Set("after", query)
		req.URL.RawQuery = q.Encode()
		n, err := lastID(req)
		if err != nil {
			require.Equal(t, 422, httpapi.ProblemOf(err).Status)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
	})
}
