// Command look is a module that looks in each step at as much of the conversation
// as its configuration says: at nothing, at the last message, or at all, each
// message once.
package main

import (
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	l := &look{}
	d := middleware.Declare(middleware.Options{Name: "look"})
	d.String(&l.at, "at", "what it looks at: nothing, last or all")
	d.BeforeModelRewriteState(l)
	middleware.Serve(d)
}

func main() {}

type look struct {
	at string // nothing, last, all

	revision int64 // up to which it has looked at all; forgotten with its memory
}

// BeforeModelRewriteState looks.
func (l *look) BeforeModelRewriteState(_ *middleware.Context, s *middleware.State) error {
	switch l.at {
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
