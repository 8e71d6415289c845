// Command look is a module that reads a part of the conversation in each step. Its configuration
// selects the part: nothing, the last message, or each message once.
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
	at string // "nothing", "last", "all" or "kept"

	revision int64 // last revision that the module has read; lost with its memory
}

// seen is the last revision that was read, in a run-local value that outlives the module's memory.
var seen = middleware.Local[int64]("seen")

// BeforeModelRewriteState reads the configured part of the conversation.
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

// lookAt reads the messages that have changed since a revision.
func lookAt(s *middleware.State, revision int64) {
	for i := s.Messages.ChangedSince(revision); i < s.Messages.Len(); i++ {
		if s.Messages.At(i).Role == "" {
			panic("a message has no role")
		}
	}
}
