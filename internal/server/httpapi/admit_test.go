package httpapi

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// TestBodyOfUnknownLength checks that a body of unknown length counts as the largest that the
// tenant may send.
func TestBodyOfUnknownLength(t *testing.T) {
	t.Parallel()
	info := &store.TenantInfo{}
	c := &Caller{Info: info}
	req := &http.Request{ContentLength: -1, Body: io.NopCloser(strings.NewReader(""))}
	r := &Route{Body: 8 << 20, Input: true}
	require.Equal(t, int64(defaultInputBytes), r.bodyBytes(req, c))
	info.Quota.InputBytes = 5
	require.Equal(t, int64(5), r.bodyBytes(req, c))
	r.Input = false
	require.Equal(t, int64(8<<20), r.bodyBytes(req, c))
}
