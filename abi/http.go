package abi

// An HTTPRequest is what a module hands to the import http, whose reply is an
// HTTPResponse. {{secret:NAME}} in the path and query of the url, in values of
// headers and in the body stands for a secret that the host fills in.
type HTTPRequest struct {
	Method  string       `json:"method,omitempty"` // GET if empty
	URL     string       `json:"url"`              // https, or http without secrets
	Headers []HTTPHeader `json:"headers,omitempty"`
	Body    string       `json:"body,omitempty"`
	// BodyBase64 takes the place of Body for bytes that are not UTF-8.
	BodyBase64 string `json:"body_base64,omitempty"`
	// TimeoutMS is the time of the whole exchange in milliseconds; 0, and more than
	// the host allows: what the host allows.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// An HTTPHeader is a line of a header.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An HTTPResponse is the reply of http. Any status is one, also 404 and 500.
type HTTPResponse struct {
	Status     int          `json:"status"`
	URL        string       `json:"url,omitempty"`         // that answered, if there were redirects
	Headers    []HTTPHeader `json:"headers,omitempty"`     // names in lower case, sorted
	Body       string       `json:"body,omitempty"`        // as it was sent, if it is UTF-8
	BodyBase64 string       `json:"body_base64,omitempty"` // otherwise
}
