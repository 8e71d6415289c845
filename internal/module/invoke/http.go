package invoke

import (
	"context"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// HTTP sends the request that is encoded as JSON, if its host is granted, and replies with the
// response. A fault bundle records the request and the response as the module sees them, without
// secrets.
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

// hostOf returns the host of a URL, with its port if it has one. It returns HOST if the URL has none
// that a grant can name.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || len(u.Host) > maxHost || strings.ContainsAny(u.Host, ",;'\"[]{}() ") {
		return "HOST"
	}
	return u.Host
}

// maxHost is the length in bytes of the longest host and port.
const maxHost = 253 + len(":65535")
