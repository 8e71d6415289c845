// Command look is a module that looks in each step at as much of the conversation
// as its configuration says: at nothing, at the last message, or at all, each
// message once.
package main

import (
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{Name: "look"}, &look{})
}

func main() {}

type look struct {
	At string `json:"at"` // nothing, last, all

	revision int64 // up to which it has looked at all; forgotten with its memory
}

// BeforeModelRewriteState looks.
func (l *look) BeforeModelRewriteState(_ *middleware.Context, s *middleware.State) error {
	switch l.At {
	case "last":
		_, _ = s.Messages.Last()
	case "all":
		for i := s.Messages.ChangedSince(l.revision); i < s.Messages.Len(); i++ {
			if s.Messages.At(i).Role == "" {
				panic("a message has no role")
			}
		}
		l.revision = s.Messages.Revision()
	}
	return nil
}
