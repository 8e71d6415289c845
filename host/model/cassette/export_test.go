package cassette

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// Requests returns the recorded requests, for tests.
func (c *Cassette) Requests() []model.Request {
	out := make([]model.Request, len(c.interactions))
	for i, it := range c.interactions {
		out[i] = model.Request{Model: it.Model, Messages: it.Messages, Params: it.Params}
		for _, t := range it.Tools {
			out[i].Tools = append(out[i].Tools, abi.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
	}
	return out
}

// Parse parses a cassette, for tests.
var Parse = parse
