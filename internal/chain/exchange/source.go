package exchange

import (
	"slices"
)

// The source of an answer is who said what it says: an entry that hands on
// what it got leaves it, one that says something else is the source itself.

// sourceOf returns the source of a wrapper's answer: that of the reply to next that it
// equals, or else the entry.
func (x *Exchange[Q, P, R]) sourceOf(res *R, entry string, replies []Reply[R]) string {
	i := slices.IndexFunc(replies, func(rep Reply[R]) bool { return x.Kind.Same(res, rep.Res) })
	if i < 0 {
		return entry
	}
	return replies[i].Source
}
