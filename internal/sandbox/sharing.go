package sandbox

import (
	"context"
	"runtime"
)

// A Sharer is one of several who share a sandbox and may not be alike, such as a tenant
// of a server. Without one, whoever comes first is served first.
type Sharer struct {
	// Name is whose memory it is: of those with names nobody reserves more than what
	// is left to all others, see [Sandbox.Reserve], nor has more images.
	Name string
	// Turn waits until a guest that has run for a while may go on, and returns what
	// ends its turn. It is called from time to time while a guest runs, so that one
	// that runs for long lets others have the processor; nil: the scheduler sees to it.
	// A guest within the import of another one has no turns of its own.
	Turn func(ctx context.Context) (done func(), err error)
}

type sharerKey struct{}

// Sharing returns a context for the work of a sharer.
func Sharing(ctx context.Context, s *Sharer) context.Context {
	return context.WithValue(ctx, sharerKey{}, s)
}

func sharerOf(ctx context.Context) *Sharer {
	s, _ := ctx.Value(sharerKey{}).(*Sharer)
	return s
}

// giveWay lets others have the processor for a moment.
func (in *Instance) giveWay() {
	if in.sharer == nil || in.sharer.Turn == nil || in.depth > 0 {
		runtime.Gosched()
		return
	}
	in.endTurn()
	done, err := in.sharer.Turn(in.hostCtx)
	if err != nil {
		return // the call is to end, which is noticed at once
	}
	in.turnOver = done
}

// endTurn ends the guest's turn, if it has one: it waits, or is done.
func (in *Instance) endTurn() {
	if in.turnOver != nil {
		in.turnOver()
		in.turnOver = nil
	}
}
