package module

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func nativeHTTP(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := v.http(ctx, v.take(g, "http", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

// http sends a request to a host that was granted. What a bundle of a fault keeps
// of it is what the module saw: secrets are in neither.
func (v *visit) http(ctx context.Context, request []byte) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "http", Bytes: []Blob{request}} }, func() ([]byte, error) {
		var q abi.HTTPRequest
		if err := v.decode("http: the request", request, &q); err != nil {
			return nil, err
		}
		res, err := v.sendRequest(ctx, &q)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(res)
	})
}

// sendRequest sends a request. The guest waits for it, which is not its time.
func (v *visit) sendRequest(ctx context.Context, q *abi.HTTPRequest) (res *abi.HTTPResponse, err error) {
	if len(v.grants.HTTP) == 0 {
		return nil, notGranted("http:HOST")
	}
	defer v.look()
	v.wait(func() { res, err = v.call.HTTP(ctx, q, v.grants.HTTP) })
	return res, err
}
