// Command suite is the program that all modules of the golden cases are built
// into: one WebAssembly module, built once. Which of them an entry is, its
// configuration says; the cases' runner adds their sources and the table of them.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

func init() {
	middleware.Register(middleware.Options{Name: "cases", Events: middleware.EventTypes()}, &selected{})
}

func main() {}

// modules makes the middlewares by the name of case and module.
var modules = map[string]func() any{}

// A selected is the one middleware that an entry is. The runner has only
// those hooks called that it has.
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
