package middlewaretest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// notifier notifies a server of each tool call.
type notifier struct{ status int }

func (n *notifier) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	res, err := ctx.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://example.com/", Body: call.Name,
		Headers: []abi.HTTPHeader{{Name: "authorization", Value: "Bearer {{secret:KEY}}"}}})
	if err != nil {
		return middleware.Decision{}, err
	}
	n.status = res.Status
	return middleware.Allow(), nil
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	n := &notifier{}
	h := middlewaretest.New(middleware.Options{Name: "notifier"}, n)
	var asked abi.HTTPRequest
	h.HTTP = func(r abi.HTTPRequest) (*abi.HTTPResponse, error) {
		asked = r
		return &abi.HTTPResponse{Status: 204, Headers: []abi.HTTPHeader{{Name: "a", Value: "b"}}}, nil
	}
	_, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: "shell"}})
	require.NoError(t, err)
	require.Equal(t, 204, n.status)
	require.Equal(t, abi.HTTPRequest{Method: "POST", URL: "https://example.com/", Body: "shell",
		Headers: []abi.HTTPHeader{{Name: "authorization", Value: "Bearer {{secret:KEY}}"}}}, asked)

	h.HTTP = nil
	_, err = h.GateTool(abi.GateToolInput{Call: abi.Call{Name: "shell"}})
	require.ErrorContains(t, err, "not granted")
}
