package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
)

// maxProblem is the maximum number of bytes that are read from an error response.
const maxProblem = 1 << 20

// problemOf returns the problem that a response reports. If the response's body is not a problem,
// problemOf returns a problem that asks the user to check the server's address.
func (c *Client) problemOf(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	p := &api.Problem{}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch err := json.Unmarshal(b, p); {
	case kind != "application/problem+json", err != nil, p.Title == "" && p.Detail == "":
		*p = api.Problem{
			Title:  http.StatusText(res.StatusCode),
			Detail: fmt.Sprintf("%s is not an agent-runner server: it returns %s; check the address", c.server, res.Status),
		}
		if at := res.Header.Get("Location"); at != "" && res.StatusCode < 400 {
			p.Detail = fmt.Sprintf("%s redirects to %.200s; use that address if it is the server's", c.server, at)
		}
	}
	p.Status = res.StatusCode
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
