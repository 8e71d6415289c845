package exchange

import (
	"slices"
)

// sourceOf returns the source of a wrapper's answer. If the answer has the same content as a reply
// that next returned, it is that reply's source; otherwise it is the entry.
func (x *Exchange[Q, P, R]) sourceOf(res *R, entry string, replies []Reply[R]) string {
	i := slices.IndexFunc(replies, func(rep Reply[R]) bool { return x.Kind.Same(res, rep.Res) })
	if i < 0 {
		return entry
	}
	return replies[i].Source
}
