package exchange

import (
	"slices"
)

// answered returns the reply of a wrapper that answered with res. If res has the same content as a
// reply that next returned, answered uses the source and labels of that reply. Otherwise the source
// is the entry, and the labels are those of the entry and of all replies of next.
func (w *Wrapping[Q, P, R]) answered(res *R) Reply[R] {
	i := slices.IndexFunc(w.seen, func(rep Reply[R]) bool { return rep.Err == nil && w.x.Kind.Same(res, rep.Res) })
	if i >= 0 {
		return Reply[R]{Res: res, Source: w.seen[i].Source, Labels: w.seen[i].Labels}
	}
	return Reply[R]{Res: res, Source: w.m.Name, Labels: w.labels()}
}

// labels returns the labels of an answer that the wrapper wrote: the entry's own and those of all
// replies of next.
func (w *Wrapping[Q, P, R]) labels() []string { return w.x.changedBy(w.m.Name, w.seen...) }
