// Command suite is the program with all Go modules of the golden cases, built once as one WebAssembly
// module. An entry's configuration selects one of the Go modules. The build of the cases adds the
// sources of the modules, and a file that registers them.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

func init() {
	middleware.Register(middleware.Options{Name: "cases", Events: middleware.EventTypes(), Labels: true}, &selected{})
}

func main() {}

// modules holds functions that make middlewares, by the name of the case and the module.
var modules = map[string]func() any{}

// selected passes the hooks to the middleware that the configuration of an entry selects. The
// cases' runner lists the hooks of that middleware in its request, and the host calls no others.
type selected struct {
	Use    string          `json:"use"`
	Config json.RawMessage `json:"config"`

	it any
}

func (s *selected) Configure(ctx *middleware.Context) error {
	make, ok := modules[s.Use]
	if !ok {
		return fmt.Errorf("there is no module %q", s.Use)
	}
	s.it = make()
	if len(s.Config) > 0 && string(s.Config) != "null" {
		if unknown, err := abijson.Decode(s.Config, s.it); err != nil {
			return err
		} else if len(unknown) > 0 {
			return fmt.Errorf("unknown key %q", unknown[0])
		}
	}
	if c, ok := s.it.(middleware.ConfigureHook); ok {
		return c.Configure(ctx)
	}
	return nil
}
