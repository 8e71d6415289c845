package exchange

import (
	"slices"
)

// sourceOf returns the source of a wrapper's answer. A wrapper that returns a reply to next
// unchanged leaves its source; any other answer has the entry itself as its source.
func (x *Exchange[Q, P, R]) sourceOf(res *R, entry string, replies []Reply[R]) string {
	i := slices.IndexFunc(replies, func(rep Reply[R]) bool { return x.Kind.Same(res, rep.Res) })
	if i < 0 {
		return entry
	}
	return replies[i].Source
}
