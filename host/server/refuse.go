package server

import (
	"context"
	"net/http"
	"time"
)

// To refuse a request takes the processors and the network about as long as to answer a
// small one, and no quota counts it. So who is refused much more often than a program that
// heeds Retry-After is told so later: nothing is lost to it, and who asks again at once,
// without end, waits instead of keeping the server busy.
const (
	refusalBurst = 3 * time.Second      // 600 refusals at once
	refusalTime  = 5 * time.Millisecond // what each counts as: 50 a second then
	mostHeld     = 4096                 // that wait, of all callers; what is above is told at once
)

// noKey is who has not shown a valid key: all of them are one.
const noKey = "no key"

// newRefused counts what is refused.
func newRefused() *paced { return newPaced("refusals", 1, 0, refusalBurst) }

// refuse answers a request with why it is refused, if need be later than at once.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	who := noKey
	if a := answerOf(r.Context()); a != nil && a.caller != nil {
		who = a.caller.Key.Tenant
	}
	s.hold(r.Context(), s.refused.rest(who, refusalTime, true))
	writeProblem(w, r, err)
}

// hold waits for so long with a refusal, unless too many wait, nobody wants it any more, or the server is to end.
func (s *Server) hold(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	defer s.held.Add(-1)
	if s.held.Add(1) > mostHeld {
		return
	}
	select {
	case <-ctx.Done():
	case <-s.draining:
	case <-time.After(wait):
	}
}
