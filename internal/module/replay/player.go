package replay

import (
	"errors"
	"fmt"
	"slices"
)

// ErrDiverged ends a replay that does not do what was recorded.
var ErrDiverged = errors.New("the replay leaves the recording")

// A Player gives a visit what was recorded of another one.
type Player struct {
	Recording  *Recording
	Calls      int
	clockReads int // at the clock
}

func (p *Player) Clock() int64 {
	if len(p.Recording.Clock) == 0 {
		return 0
	}
	now := p.Recording.Clock[min(p.clockReads, len(p.Recording.Clock)-1)]
	p.clockReads++
	return now
}

// MaxFuel is the fuel that a call may use which may use that much at most. A
// recorded one that was ended for its time is ended by its fuel, at the same
// place: time is not the same again. The player may be nil.
func (p *Player) MaxFuel(left int64) int64 {
	if p == nil || !p.Recording.Stopped {
		return left
	}
	return int64(min(uint64(left), max(p.Recording.Fuel, 1)-1))
}

func (p *Player) Answer(q *HostCall) ([]byte, error) {
	if p.Calls == len(p.Recording.Calls) {
		if p.Recording.Cut {
			return nil, fmt.Errorf("%w: what the host replied after its first %d calls was not recorded", ErrDiverged, p.Calls)
		}
		return nil, fmt.Errorf("%w: it calls %s after all %d recorded host calls", ErrDiverged, q.Name, p.Calls)
	}
	known := &p.Recording.Calls[p.Calls]
	p.Calls++
	if !known.asks(q) {
		return nil, fmt.Errorf("%w: host call %d is %s with other arguments; recorded is %s", ErrDiverged, p.Calls, q.Name, known.Name)
	}
	if known.Error != nil {
		return nil, known.Error
	}
	return known.Reply, nil
}

// Accept reports whether the next recorded call is one of that name with these numbers, and passes it
// if so.
func (p *Player) Accept(name string, numbers ...int64) bool {
	if p.Calls == len(p.Recording.Calls) {
		return false
	}
	next := &p.Recording.Calls[p.Calls]
	if next.Name != name || !slices.Equal(next.Numbers, numbers) {
		return false
	}
	p.Calls++
	return true
}
