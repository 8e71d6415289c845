package chain

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// places say which members have each hook: ring by ring from outside in, in
// registration order within a ring. Every run of a chain has the same, and each
// hook is looked up many times in a run.
type places struct {
	order []int // the members' indices: the lists of all hooks, one behind the other
	of    map[abi.Hook]place
}

// A place is where the list of a hook lies. Ring i has at[i] up to, not including,
// at[i+1].
type place struct{ at [rings + 1]int }

// placesOf finds the places of n members. has says in which ring one is, and whether
// it has a hook.
func placesOf(n int, has func(i int, h abi.Hook) (Ring, bool)) places {
	p := places{of: map[abi.Hook]place{}}
	for _, h := range abi.Hooks() {
		list := place{}
		for ring := range rings {
			list.at[ring] = len(p.order)
			for i := range n {
				if at, ok := has(i, h); ok && at == ring {
					p.order = append(p.order, i)
				}
			}
		}
		list.at[rings] = len(p.order)
		if list.at[rings] > list.at[Outer] {
			p.of[h] = list
		}
	}
	return p
}

// lists are the members of a run by their hooks.
type lists struct {
	members []*member
	of      map[abi.Hook]place
}

// fill puts members into their places.
func (p *places) fill(all []*member) lists {
	l := lists{make([]*member, len(p.order)), p.of}
	for at, i := range p.order {
		l.members[at] = all[i]
	}
	return l
}

// inward lists the members that have a hook from outside in; the list is not to be
// changed.
func (r *Run) inward(h abi.Hook) []*member {
	p := r.lists.of[h]
	return r.lists.members[p.at[Outer]:p.at[rings]:p.at[rings]]
}

// outward is inward from inside out; within a ring the order is the same.
func (r *Run) outward(h abi.Hook) []*member {
	var out []*member
	for ring := rings - 1; ring >= Outer; ring-- {
		switch list := r.in(ring, h); {
		case len(out) == 0:
			out = list
		default:
			out = slices.Concat(out, list)
		}
	}
	return out
}

// in lists the members of a ring that have a hook; the list is not to be changed.
func (r *Run) in(ring Ring, h abi.Hook) []*member {
	p := r.lists.of[h]
	return r.lists.members[p.at[ring]:p.at[ring+1]:p.at[ring+1]]
}

// without returns the lists without some of the members.
func (r *Run) without(out func(*member) bool) lists {
	p := placesOf(len(r.all), func(i int, h abi.Hook) (Ring, bool) {
		m := r.all[i]
		return m.Ring, m.has(h) && !out(m)
	})
	return p.fill(r.all)
}
