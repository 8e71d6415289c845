package hook

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// places say which members have each hook: ring by ring from outside in, in
// registration order within a ring. Every run of a chain has the same, and each
// hook is looked up many times in a run.
type Places struct {
	order []int // the members' indices: the lists of all hooks, one behind the other
	of    map[abi.Hook]place
}

// A place is where the list of a hook lies. Ring i has at[i] up to, not including,
// at[i+1].
type place struct{ at [RingCount + 1]int }

// placesOf finds the places of n members. has says in which ring one is, and whether
// it has a hook.
func PlacesOf(n int, has func(i int, h abi.Hook) (Ring, bool)) Places {
	p := Places{of: map[abi.Hook]place{}}
	for _, h := range abi.Hooks() {
		list := place{}
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
			p.of[h] = list
		}
	}
	return p
}

// lists are the members of a run by their hooks.
type Lists struct {
	members []*Member
	of      map[abi.Hook]place
}

// fill puts members into their places.
func (p *Places) Fill(all []*Member) Lists {
	l := Lists{make([]*Member, len(p.order)), p.of}
	for at, i := range p.order {
		l.members[at] = all[i]
	}
	return l
}

// inward lists the members that have a hook from outside in; the list is not to be
// changed.
func (r *Run) Inward(h abi.Hook) []*Member {
	p := r.Lists.of[h]
	return r.Lists.members[p.at[Outer]:p.at[RingCount]:p.at[RingCount]]
}

// outward is inward from inside out; within a ring the order is the same.
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

// in lists the members of a ring that have a hook; the list is not to be changed.
func (r *Run) In(ring Ring, h abi.Hook) []*Member {
	p := r.Lists.of[h]
	return r.Lists.members[p.at[ring]:p.at[ring+1]:p.at[ring+1]]
}

// listsOf returns the lists of the members that pass a filter.
func ListsOf(members []*Member, pass func(*Member) bool) Lists {
	p := PlacesOf(len(members), func(i int, h abi.Hook) (Ring, bool) {
		m := members[i]
		return m.Ring, m.Has(h) && pass(m)
	})
	return p.Fill(members)
}
