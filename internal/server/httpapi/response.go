package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"

	"github.com/agent-runner/agent-runner/internal/server/admission"
)

// A responseRecorder records a response for the request's log record.
type responseRecorder struct {
	http.ResponseWriter
	id     string
	status int
	bytes  int64
	caller *Caller
	cause  error
	body   []byte // the encoded body, if a handler of a JSON route succeeded
}

// WriteHeader implements [http.ResponseWriter].
func (a *responseRecorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. If b has more than SmallResponse bytes, the caller's
// response holds at least len(b) bytes during the write.
func (a *responseRecorder) Write(b []byte) (int, error) {
	if a.caller != nil && a.caller.Response != nil && len(b) > admission.SmallResponse {
		defer a.caller.Response.Cover(len(b))()
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] find the original writer.
func (a *responseRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

type recorderKey struct{}

func recorderOf(ctx context.Context) *responseRecorder {
	a, _ := ctx.Value(recorderKey{}).(*responseRecorder)
	return a
}

// setCause records an error for the request's log record.
func setCause(r *http.Request, err error) {
	if a := recorderOf(r.Context()); a != nil && err != nil {
		a.cause = err
	}
}

// bodyField returns the index of the field that holds an output's JSON body, or nil if the output
// has none.
func bodyField(output reflect.Type) []int {
	f, ok := output.FieldByName("Body")
	if !ok || f.Type.Kind() == reflect.Func || f.Type == reflect.TypeFor[[]byte]() {
		return nil
	}
	return f.Index
}

// encode encodes a handler's body as JSON, and counts the bytes of the JSON against the limits on
// responses. It clears the body, so that only these bytes are in memory while the client reads
// them. It fails with an [*admission.QuotaError] if the bytes do not fit and the route is a GET
// that is not Large. Large requests were checked before they read data. Requests with other methods
// must not be repeated, and the sizes of their responses are bounded by the requests.
func (a *responseRecorder) encode(r *Route, body reflect.Value) error {
	var b bytes.Buffer
	if err := WriteJSON(&b, body.Interface()); err != nil {
		return err
	}
	a.body = b.Bytes()
	if r.Method == http.MethodGet && !r.Large {
		if err := a.caller.Response.Set(cap(a.body)); err != nil {
			return err
		}
	} else {
		a.caller.Response.Force(cap(a.body))
	}
	body.SetZero()
	return nil
}

// writeBody writes the body of a response: the encoded body, or else v as JSON.
func writeBody(w io.Writer, v any) error {
	if a, ok := w.(*responseRecorder); ok && a.body != nil {
		_, err := a.Write(a.body)
		return err
	}
	return WriteJSON(w, v)
}
