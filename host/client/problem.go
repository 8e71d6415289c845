package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Problem is why a server did not do what it was asked (RFC 9457).
type Problem struct {
	// Type names the problem for programs, as urn:agent-runner:problem:<code>; empty
	// for an answer that is not a server's of agent-runner.
	Type     string  `json:"type"`
	Title    string  `json:"title"`
	Status   int     `json:"status"`
	Detail   string  `json:"detail,omitempty"`
	Instance string  `json:"instance,omitempty"` // the request; the server's log has the same id
	Quota    string  `json:"quota,omitempty"`    // that was reached
	Errors   []Wrong `json:"errors,omitempty"`

	// RetryAfter is when it makes sense to try again; 0 where the server does not say.
	RetryAfter time.Duration `json:"-"`
}

// A Wrong is one place of a request that is wrong.
type Wrong struct {
	Location string `json:"location,omitempty"`
	Message  string `json:"message"`
}

// Codes of problems, for [Problem.Is].
const (
	Invalid      = "invalid-request"
	Unauthorized = "no-valid-key"
	Forbidden    = "scope-missing"
	NotFound     = "not-found"
	Conflict     = "conflict"
	TooLarge     = "too-large"
	Refused      = "refused"
	Blocked      = "blocked"
	Quota        = "quota-reached"
	Internal     = "internal"
	Unavailable  = "unavailable"
)

const problemType = "urn:agent-runner:problem:"

// Code is the last part of the problem's type, such as not-found.
func (p *Problem) Code() string { return strings.TrimPrefix(p.Type, problemType) }

// Request is the id of the request, under which the server's log has it.
func (p *Problem) Request() string {
	return strings.TrimPrefix(p.Instance, "urn:agent-runner:request:")
}

// Error tells what is wrong, with every place of the request that is.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	if p.Detail == "" {
		b.WriteString(p.Title)
	}
	for _, w := range p.Errors {
		if strings.Contains(p.Detail, w.Message) {
			continue // it was said
		}
		b.WriteString("; ")
		if w.Location != "" {
			b.WriteString(w.Location + ": ")
		}
		b.WriteString(w.Message)
	}
	return b.String()
}

// maxProblem is how much of an answer that is an error is read.
const maxProblem = 1 << 20

// problemOf reads an answer that is an error.
func (c *Client) problemOf(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch err := json.Unmarshal(b, p); {
	case kind != "application/problem+json", err != nil, p.Title == "" && p.Detail == "":
		*p = Problem{Title: http.StatusText(res.StatusCode), Detail: fmt.Sprintf("%s answers %s, and not as a server of agent-runner does; is the address right?", c.server, res.Status)}
		if at := res.Header.Get("Location"); at != "" && res.StatusCode < 400 {
			p.Detail = fmt.Sprintf("%s sends on to %.200s; give that address, if it is the server's", c.server, at)
		}
	}
	p.Status = res.StatusCode
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
