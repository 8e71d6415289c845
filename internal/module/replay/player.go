package replay

import (
	"errors"
	"fmt"
	"slices"
)

// ErrDiverged is the error of a replay in which the module makes other host calls than in the
// recording.
var ErrDiverged = errors.New("the replay differs from the recording")

// A Player answers a guest from a recording.
type Player struct {
	Recording  *Recording
	Calls      int
	clockReads int // number of times that the guest read the clock
}

// Clock returns the next recorded time, in nanoseconds. After the last recorded time, it returns that time again. If
// no time was recorded, it returns 0.
func (p *Player) Clock() int64 {
	if len(p.Recording.Clock) == 0 {
		return 0
	}
	now := p.Recording.Clock[min(p.clockReads, len(p.Recording.Clock)-1)]
	p.clockReads++
	return now
}

// MaxFuel returns the fuel that the call may use: the argument left or, if the recorded call ran out
// of time, at most one less than the recorded fuel. Time is not reproducible, so the replay then ends
// where the recorded call used its last fuel. The receiver may be nil.
func (p *Player) MaxFuel(left int64) int64 {
	if p == nil || !p.Recording.Stopped {
		return left
	}
	return int64(min(uint64(left), max(p.Recording.Fuel, 1)-1))
}

// Answer returns the recorded reply to a host call, or the recorded error. If the next recorded
// call is not q, it returns an error that wraps [ErrDiverged].
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
		return nil, fmt.Errorf("%w: host call %d is %s with other arguments; recorded is %s",
			ErrDiverged, p.Calls, q.Name, known.Name)
	}
	if known.Error != nil {
		return nil, known.Error
	}
	return known.Reply, nil
}

// Accept reports whether the next recorded call has this name and these numbers. If so, it advances
// to the call after it.
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
