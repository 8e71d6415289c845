package model

import (
	"net/http"
	"time"
)

// A Client is a model behind an endpoint.
type Client interface {
	Model
	// Close closes idle connections if the client has its own HTTP client. It does not affect
	// active requests.
	Close()
}

// ClientOptions configure a client: its endpoint, timeouts and limits. The zero value selects the
// provider's own endpoint, without a key.
type ClientOptions struct {
	// BaseURL is the endpoint's URL without the path of the API, such as /chat/completions. The
	// provider's package has the default. The URL's query is sent with each request.
	BaseURL string
	// APIKey, if not empty, is sent in the header that the API defines. It does not appear in errors.
	APIKey string
	// Headers are sent with each request. Their values do not appear in errors.
	Headers map[string]string
	// HTTPClient sends the requests. By default, the client creates its own. Redirects are
	// never followed.
	HTTPClient *http.Client

	// ConnectTimeout is the connection timeout of the client's own HTTP client. The default is 10
	// seconds.
	ConnectTimeout time.Duration
	// FirstByteTimeout is the timeout for the first byte of the answer. The default is 5 minutes,
	// since an answer that is not streamed starts when it is complete.
	FirstByteTimeout time.Duration
	// IdleTimeout is the maximum pause within an answer. The default is 2 minutes. Keep-alive
	// comments and events end a pause. Time in a sink does not count.
	IdleTimeout time.Duration

	// MaxAnswer is the maximum size of an answer after decompression, in bytes. The default
	// is 32 MiB.
	MaxAnswer int64
	// MaxEvent is the maximum size of one event of a stream, in bytes. The default is 4 MiB, or 16 MiB
	// for the Responses API, whose last event repeats the answer, the instructions and the tools.
	MaxEvent int
}
