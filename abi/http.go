package abi

// An HTTPRequest is the argument of the import "http", which replies with an
// [HTTPResponse]. The host replaces {{secret:NAME}} in the path and query of the URL, in
// header values and in the body with the secret of that name.
type HTTPRequest struct {
	Method  string       `json:"method,omitempty"` // defaults to GET
	URL     string       `json:"url"`              // https; http is allowed without secrets
	Headers []HTTPHeader `json:"headers,omitempty"`
	Body    string       `json:"body,omitempty"`
	// BodyBase64 replaces Body if the bytes are not valid UTF-8.
	BodyBase64 string `json:"body_base64,omitempty"`
	// TimeoutMS bounds the whole exchange, in milliseconds. Zero means the host's
	// maximum, and larger values are reduced to it.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// An HTTPHeader is one header field.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An HTTPResponse is the reply of the import "http". Every HTTP status, including 404 and
// 500, is a successful reply.
type HTTPResponse struct {
	Status     int          `json:"status"`
	URL        string       `json:"url,omitempty"`         // final URL, if there were redirects
	Headers    []HTTPHeader `json:"headers,omitempty"`     // names are lower case and sorted
	Body       string       `json:"body,omitempty"`        // if it is valid UTF-8
	BodyBase64 string       `json:"body_base64,omitempty"` // if it is not valid UTF-8
}
