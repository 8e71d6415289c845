package hook

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Places has, for each hook, the positions of the members with that hook: ring by ring from the
// outside in, and in registration order within a ring. A chain computes it once for all of its
// runs.
type Places struct {
	order []int // member indices: the lists of all hooks, concatenated
	of    []place
}

// A place is the position of a hook's list in order. The members of ring i are
// order[at[i]:at[i+1]].
type place struct {
	hook abi.Hook
	at   [RingCount + 1]int
}

// PlacesOf computes the places of n members. has returns the ring of member i, and whether the
// member has hook h.
func PlacesOf(n int, has func(i int, h abi.Hook) (Ring, bool)) Places {
	var p Places
	for _, h := range contract.Hooks() {
		list := place{hook: h}
		for ring := range RingCount {
			list.at[ring] = len(p.order)
			for i := range n {
				if at, ok := has(i, h); ok && at == ring {
					p.order = append(p.order, i)
				}
			}
		}
		list.at[RingCount] = len(p.order)
		if list.at[RingCount] > list.at[Outer] {
			p.of = append(p.of, list)
		}
	}
	return p
}

// Lists has the members of a run by hook.
type Lists struct {
	members []*Member
	of      []place
}

// at returns the bounds of the rings in the list of hook h, or zeros if no member has the hook. It
// searches in order, since a chain has few hooks.
func (l *Lists) at(h abi.Hook) (at [RingCount + 1]int) {
	for i := range l.of {
		if l.of[i].hook == h {
			return l.of[i].at
		}
	}
	return at
}

// Fill returns the lists of a run's members.
func (p *Places) Fill(all []*Member) Lists {
	l := Lists{make([]*Member, len(p.order)), p.of}
	for at, i := range p.order {
		l.members[at] = all[i]
	}
	return l
}

// Inward returns the members that have hook h, from the outside in. The caller must not change the
// slice.
func (r *Run) Inward(h abi.Hook) []*Member {
	at := r.Lists.at(h)
	return r.Lists.members[at[Outer]:at[RingCount]:at[RingCount]]
}

// Outward returns the members that have hook h, from the innermost ring to the outermost. Within a
// ring, they are in registration order. The caller must not change the slice.
func (r *Run) Outward(h abi.Hook) []*Member {
	var out []*Member
	for ring := RingCount - 1; ring >= Outer; ring-- {
		switch list := r.In(ring, h); {
		case len(out) == 0:
			out = list
		default:
			out = slices.Concat(out, list)
		}
	}
	return out
}

// In returns the members of a ring that have hook h. The caller must not change the slice.
func (r *Run) In(ring Ring, h abi.Hook) []*Member {
	at := r.Lists.at(h)
	return r.Lists.members[at[ring]:at[ring+1]:at[ring+1]]
}

// Only returns the members for which pass returns true. It returns members itself if all pass.
func Only(members []*Member, pass func(*Member) bool) []*Member {
	for i, m := range members {
		if pass(m) {
			continue
		}
		out := slices.Clone(members[:i])
		for _, m := range members[i+1:] {
			if pass(m) {
				out = append(out, m)
			}
		}
		return out
	}
	return members
}

// ListsOf returns the lists of the members for which pass returns true.
func ListsOf(members []*Member, pass func(*Member) bool) Lists {
	p := PlacesOf(len(members), func(i int, h abi.Hook) (Ring, bool) {
		m := members[i]
		return m.Ring, m.Has(h) && pass(m)
	})
	return p.Fill(members)
}
