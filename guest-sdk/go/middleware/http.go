package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
)

// HTTP sends a request, with the grant http:HOST. {{secret:NAME}} in its url,
// its headers' values and its body is filled in by the host, for hosts that the
// secret is for. Redirects are followed where they lead to granted hosts.
//
// Any status is an answer. Errors are *abi.Error: denied without the grant, for a
// private address and for a secret of another host, limit for what is too large,
// and unavailable where the host was not reached or did not answer in time. A
// hook that is called again, because its run was cut off, sends it again. If the
// run ends meanwhile it does not return.
func (c *Context) HTTP(request abi.HTTPRequest) (*abi.HTTPResponse, error) {
	b, err := abi.Write(nil, &request)
	if err != nil {
		return nil, abi.Wrap("encode the request", err)
	}
	b, err = c.host.HTTP(b)
	if err != nil {
		return nil, err
	}
	res := &abi.HTTPResponse{}
	if err := abi.Read(b, res); err != nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to http cannot be read"}
	}
	return res, nil
}
