package server

import (
	"context"
	"net/http"
	"sync/atomic"
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

// refusals are what callers are refused, and those that wait to be told.
type refusals struct {
	paces    *paces
	draining <-chan struct{}
	held     atomic.Int64
}

func newRefusals(draining <-chan struct{}) *refusals {
	return &refusals{paces: newPaces(1, refusalBurst), draining: draining}
}

// refuse answers a request with why it is refused, if need be later than at once.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	who := noKey
	if a := answerOf(r.Context()); a != nil && a.caller != nil {
		who = a.caller.Key.Tenant
	}
	s.refusals.wait(r.Context(), who)
	writeProblem(w, r, err)
}

// wait counts a refusal, and waits for when it is told, unless too many wait, nobody wants
// it any more, or the server is to end.
func (f *refusals) wait(ctx context.Context, who string) {
	rest := f.paces.rest(who, refusalTime, nil)
	if rest <= 0 {
		return
	}
	defer f.held.Add(-1)
	if f.held.Add(1) > mostHeld {
		return
	}
	select {
	case <-ctx.Done():
	case <-f.draining:
	case <-time.After(rest):
	}
}
