package hook

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// maxHTTP is the maximum number of HTTP requests of one hook call.
const maxHTTP = 100

// An HTTP sends HTTP requests for middlewares.
type HTTP interface {
	// Send sends a request to one of the hosts in granted and returns the response. The error is an
	// *abi.Error and contains no secrets.
	Send(ctx context.Context, r *abi.HTTPRequest, granted []string) (*abi.HTTPResponse, error)
}

// HTTP sends a request to one of the hosts in granted and returns the response. The host replaces references to
// secrets. The request is not recorded: a hook that is called again sends it again. One hook call can send 100
// requests. The time does not count as the hook's. The error is an *abi.Error, or ends the run.
func (c *Call) HTTP(
	ctx context.Context,
	r *abi.HTTPRequest,
	granted []string,
) (res *abi.HTTPResponse, err error) {
	sender := c.run.HTTP
	c.mu.Lock()
	did := c.activity()
	did.requests++
	n := did.requests
	c.mu.Unlock()
	switch {
	case sender == nil:
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "http: this host sends no requests"}
	case n > maxHTTP:
		return nil, &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("http: a hook may send %d requests", maxHTTP)}
	}
	err = c.waitFor(func() (err error) {
		if res, err = sender.Send(ctx, r, granted); err != nil && ending.FromContext(ctx) != nil {
			err = ending.FromContext(ctx) // the run's context is done
		}
		return err
	})
	var known *abi.Error
	switch {
	case err == nil, errors.As(err, &known), ending.Is(err):
		return res, err
	default:
		c.Log(contract.LogError, "http: "+err.Error())
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "http: the request could not be sent"}
	}
}
