package invoke

import (
	"context"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// HTTP sends the request whose JSON is given, if the entry has a grant for the request's host. The
// reply is the response. A fault bundle records the request and the response in the form that the
// module sees, which has no secrets.
func (inv *Invocation) HTTP(ctx context.Context, request []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "http", Bytes: []replay.Blob{request}} },
		func() ([]byte, error) {
			var q abi.HTTPRequest
			if err := inv.Decode("http: the request", request, &q); err != nil {
				return nil, err
			}
			res, err := inv.SendRequest(ctx, &q)
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(res)
		},
	)
}

// SendRequest sends a request. It returns an error with [abi.CodeDenied] if the entry has no grant
// for HTTP. Waiting for the response does not count towards the guest's time.
func (inv *Invocation) SendRequest(
	ctx context.Context,
	q *abi.HTTPRequest,
) (res *abi.HTTPResponse, err error) {
	if len(inv.Grants.HTTP) == 0 {
		return nil, notGranted("http:" + hostOf(q.URL))
	}
	defer inv.syncClock()
	inv.wait(func() { res, err = inv.Call.HTTP(ctx, q, inv.Grants.HTTP) })
	return res, err
}

// hostOf returns the host of a URL, with its port if the URL has one. It returns HOST if the URL
// has no host that a grant can name.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || len(u.Host) > maxHost || strings.ContainsAny(u.Host, ",;'\"[]{}() ") {
		return "HOST"
	}
	return u.Host
}

// maxHost is the maximum length of a host with its port, in bytes.
const maxHost = 253 + len(":65535")
