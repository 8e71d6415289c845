package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// HTTP sends a request. It needs the grant "http:HOST". The host replaces {{secret:NAME}} in the
// path and query of the URL, in header values and in the body, if the secret is intended for the
// request's host. The host follows redirects to granted hosts.
//
// Any status is a response. Errors of the host are of type *abi.Error. Typical codes are
// [abi.CodeDenied] without the grant, for a private address and for a secret of another host,
// [abi.CodeLimit] for a request or response that is too large, and [abi.CodeUnavailable] if the
// server was not reached or did not answer in time. A hook that is called again after its run was
// cut off sends the request again. HTTP does not return if the run ends meanwhile.
func (c *Context) HTTP(request abi.HTTPRequest) (*abi.HTTPResponse, error) {
	b, err := abijson.Write(nil, (*abijson.HTTPRequest)(&request))
	if err != nil {
		return nil, jsoncodec.Wrap("encode the request", err)
	}
	b, err = c.host.HTTP(b)
	if err != nil {
		return nil, err
	}
	res := &abi.HTTPResponse{}
	if err := abijson.Read(b, (*abijson.HTTPResponse)(res)); err != nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to http cannot be read"}
	}
	return res, nil
}
