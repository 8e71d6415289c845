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
	d.String(&l.at, "at", "what it looks at: nothing, last, all, or kept, which is all and outlasts the module's memory")
	d.BeforeModelRewriteState(l)
	middleware.Serve(d)
}

func main() {}

type look struct {
	at string // nothing, last, all, kept

	revision int64 // up to which it has looked at all; forgotten with its memory
}

// seen is the same where the module's memory may be gone.
var seen = middleware.Local[int64]("seen")

// BeforeModelRewriteState looks.
func (l *look) BeforeModelRewriteState(ctx *middleware.Context, s *middleware.State) error {
	switch l.at {
	case "last":
		_, _ = s.Messages.Last()
	case "all":
		lookAt(s, l.revision)
		l.revision = s.Messages.Revision()
	case "kept":
		revision, _, err := seen.Get(ctx)
		if err != nil {
			return err
		}
		lookAt(s, revision)
		return seen.Set(ctx, s.Messages.Revision())
	}
	return nil
}

// lookAt looks at what is new since a revision.
func lookAt(s *middleware.State, revision int64) {
	for i := s.Messages.ChangedSince(revision); i < s.Messages.Len(); i++ {
		if s.Messages.At(i).Role == "" {
			panic("a message has no role")
		}
	}
}
