package gateway

import (
	"errors"
	"net/http"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A refusal is an error of the upstream, or a count of tokens, instead of an answer of the model. The client
// gets it unchanged, unless a module answers instead.
type refusal struct {
	status int
	header http.Header
	body   []byte
	cause  error // the error for the chain: errCounted, or an *abi.Error that modules see
}

// errCounted ends the chain of a request whose tokens the upstream has counted.
var errCounted = errors.New("the upstream counted the tokens")

// maxRefusal limits the body of a refusal, in bytes.
const maxRefusal = 4 << 20

// refuse stores a refusal, and returns the error for the chain. Modules see an error of the upstream. A count of
// tokens ends the chain.
func (x *exchange) refuse(res *http.Response) error {
	body, err := x.readAll(res.Body, maxRefusal)
	if err != nil {
		return err
	}
	r := &refusal{status: res.StatusCode, header: res.Header, body: body, cause: errCounted}
	x.refused = r
	if res.StatusCode == http.StatusOK {
		return abort(errCounted)
	}
	r.cause = &abi.Error{Code: abi.CodeModel, Status: res.StatusCode, Message: "the upstream answered " + res.Status,
		Retryable: res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError}
	return r.cause
}

// endsWith reports whether err, with which the chain ended, is r.cause, so that no module has replaced
// it.
func (r *refusal) endsWith(err error) bool {
	if r == nil {
		return false
	}
	was, ok := errors.AsType[*abi.Error](r.cause)
	if !ok {
		return errors.Is(err, r.cause)
	}
	failed, ok := errors.AsType[*abi.Error](err)
	return ok && failed.Message == was.Message && failed.Status == was.Status
}

// isRefusal reports whether a status is an error that the client gets. Other statuses than these and 200 do not reach
// the client: it would follow a redirect past the modules, and would take other responses for the model's answer.
func isRefusal(status int) bool { return status >= 400 && status <= 599 }

// unexpected returns the error for a response that is neither an answer of the model nor an error.
func unexpected(res *http.Response) *wire.Error {
	return wire.Errorf(wire.CodeUpstream, "the upstream answered %s, which the gateway does not pass on", res.Status)
}

// abort returns an error that ends the chain with err: modules do not see it.
func abort(err error) error { return &ending.AbortedError{Cause: err} }
