package exchange

import (
	"slices"
)

// The source of an answer is who said what it says: an entry that hands on
// what it got leaves it, one that says something else is the source itself.

// sourceOf is the source of what an entry's wrapper answered with, which may
// be one of the replies that its next gave.
func (x *Exchange[Q, P, R]) sourceOf(res *R, entry string, replies []Reply[R]) string {
	i := slices.IndexFunc(replies, func(rep Reply[R]) bool { return x.Kind.Same(res, rep.Res) })
	if i < 0 {
		return entry
	}
	return replies[i].Source
}
