package httpapi

import "time"

// Timeouts bound the parts of requests.
type Timeouts struct {
	Header     time.Duration // reading a request's header
	Body       time.Duration // reading a body into memory
	Upload     time.Duration // reading a module
	Response   time.Duration // from the beginning of a request to the end of its response
	DeleteRuns time.Duration // deleting a tenant's runs; less than Response
	Write      time.Duration // writing one part of a stream of events
	Idle       time.Duration // between two requests on a connection
	HandBack   time.Duration // handing runs back to the journal after the drain time
}

// DefaultTimeouts returns the timeouts of a server.
func DefaultTimeouts() *Timeouts {
	return &Timeouts{
		Header:     10 * time.Second,
		Body:       bodyTimeout,
		Upload:     5 * time.Minute,
		Response:   2 * time.Minute,
		DeleteRuns: 90 * time.Second,
		Write:      30 * time.Second,
		Idle:       2 * time.Minute,
		HandBack:   3 * time.Second,
	}
}
